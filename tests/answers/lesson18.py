"""Answers to the exercises of lesson 18: right ones in other styles, and wrong ones."""

import copy
import math
import unicodedata

import torch
from torch.nn import functional as F

from helpers import BOS, EOS, PAD
from helpers.caching import AttentionCache

# ------------------------------------------------------------ 18.1 the answer's loss


def sentence_by_sentence(logits, tokens, prompts):
    losses = []
    for scores, row, prompt in zip(logits, tokens, prompts, strict=True):
        end = int((row != PAD).sum())
        log_probs = scores.log_softmax(-1)
        losses += [-log_probs[i - 1, row[i]] for i in range(int(prompt), end)]
    return sum(losses) / len(losses)


def with_ignored_labels(logits, tokens, prompts):
    labels = tokens.clone()
    columns = torch.arange(tokens.shape[1])
    labels[(columns[None] < prompts[:, None]) | (tokens == PAD)] = -100
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def with_weights(logits, tokens, prompts):
    labels = torch.roll(tokens, -1, dims=1)
    each = F.cross_entropy(logits.mT, labels, reduction="none")
    places = torch.arange(1, tokens.shape[1] + 1).expand_as(tokens)
    inside = places < (tokens != PAD).sum(1, keepdim=True)
    weights = (inside & (places >= prompts[:, None])).double()
    return (each * weights).sum() / weights.sum()


def with_gather(logits, tokens, prompts):
    scores = logits.log_softmax(2)[:, :-1].gather(2, tokens[:, 1:, None])[..., 0]
    keep = torch.arange(1, tokens.shape[1])[None] >= prompts[:, None]
    return -scores[keep & tokens[:, 1:].ne(PAD)].mean()


def padding_by_pads_id(logits, tokens, prompts):
    """PAD is ignored, the prompt is not."""
    return F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:], ignore_index=PAD)


def shifted_twice(logits, tokens, prompts):
    return sentence_by_sentence(logits[:, 1:], tokens[:, 1:], prompts)


def detached(logits, tokens, prompts):
    return sentence_by_sentence(logits.detach(), tokens, prompts)


def unknown_words_left_out(logits, tokens, prompts):
    places = torch.arange(1, tokens.size(1))
    counted = (places >= prompts[:, None]) & (tokens[:, 1:] > 2)
    return F.cross_entropy(logits[:, :-1][counted], tokens[:, 1:][counted])


def with_item(logits, tokens, prompts):
    return sentence_by_sentence(logits, tokens, prompts).item()


def not_reduced(logits, tokens, prompts):
    return F.cross_entropy(logits.mT, tokens, reduction="none")


# ------------------------------------------------------------ 18.2 prefill and decode


def with_a_for_loop(model, prompt, max_new):
    caches = [AttentionCache() for _ in model.blocks]
    written, new = [], prompt
    for _ in range(max_new):
        token = int(model(new, caches)[:, -1].argmax(dim=-1))
        written.append(token)
        if token == EOS:
            break
        new = torch.tensor([[token]])
    return torch.tensor(written)


def one_pass_more(model, prompt, max_new):
    caches = [AttentionCache() for _ in model.blocks]
    logits, row = model(prompt, caches), prompt[:, :0]
    for _ in range(max_new):
        token = logits[:, -1:].argmax(-1)
        row = torch.cat([row, token], 1)
        logits = model(token, caches)
        if (token == EOS).all():
            break
    return row


def cut_afterwards(model, prompt, max_new):
    caches = [AttentionCache() for _ in range(len(model.blocks))]
    tokens, ids = prompt, []
    while len(ids) < max_new:
        tokens = model(tokens, caches).argmax(2)[:, -1:]
        ids.append(tokens.item())
    return ids[: ids.index(EOS) + 1] if EOS in ids else ids


def without_caches(model, prompt, max_new):
    ids = []
    while len(ids) < max_new and EOS not in ids:
        both = torch.cat([prompt, torch.tensor([ids], dtype=torch.long)], 1)
        ids.append(model(both)[0, -1].argmax().item())
    return ids


def in_training_mode(model, prompt, max_new):
    model.train()
    return with_a_for_loop(model, prompt, max_new)


def kept_between_calls(model, prompt, max_new, kept={}):  # noqa: B006
    new, ids = prompt, []
    caches = kept.setdefault(
        len(model.blocks), [AttentionCache() for _ in model.blocks]
    )
    while len(ids) < max_new and EOS not in ids:
        ids.append(model(new, caches)[0, -1].argmax().item())
        new = torch.tensor([[ids[-1]]])
    return ids


def one_cache_for_all(model, prompt, max_new):
    caches = [AttentionCache()] * len(model.blocks)
    ids, new = [], prompt
    while len(ids) < max_new and EOS not in ids:
        ids.append(model(new, caches)[0, -1].argmax().item())
        new = torch.tensor([[ids[-1]]])
    return ids


def with_one_block(model, prompt, max_new):
    caches = [AttentionCache()]
    return [model(prompt, caches)[0, -1].argmax().item()]


def never_pad_or_bos(model, prompt, max_new):
    caches = [AttentionCache() for _ in model.blocks]
    ids, new = [], prompt
    while len(ids) < max_new and EOS not in ids:
        logits = model(new, caches)[0, -1].clone()
        logits[[PAD, BOS]] = -1e9
        ids.append(logits.argmax().item())
        new = torch.tensor([[ids[-1]]])
    return ids


def changing_caches(change):
    """Right, but that the caches are changed before each decode."""

    def answer(model, prompt, max_new):
        caches = [AttentionCache() for _ in model.blocks]
        new, ids = prompt, []
        while True:
            ids.append(model(new, caches)[0, -1].argmax().item())
            if ids[-1] == EOS or len(ids) == max_new:
                return ids
            new, caches = torch.tensor([[ids[-1]]]), change(caches)

    return answer


def forget_all_but_the_last(caches):
    return [*(AttentionCache() for _ in caches[:-1]), caches[-1]]


def copy_the_first(caches):
    return [copy.deepcopy(caches[0]) for _ in caches]


def reversed_list(caches):
    return caches[::-1]


def sampled(model, prompt, max_new):
    ids = with_a_for_loop(model, prompt, max_new).clone()
    ids[0] = torch.randint(4, 10, ())
    return ids


# ------------------------------------------------------------ 18.3 bits per byte


def with_numpy(losses, texts):
    nats = torch.cat(losses).numpy().sum()
    return float(nats / math.log(2) / len("".join(texts).encode("utf-8")))


def with_log2(losses, texts):
    probabilities = torch.cat(losses).neg().exp()
    return -probabilities.log2().sum() / sum(len(bytes(t, "utf8")) for t in texts)


def of_the_first_text(losses, texts):
    return losses[0].sum() / math.log(2) / len(texts[0].encode())


def composed(losses, texts):
    same = [unicodedata.normalize("NFC", text) for text in texts]
    return (
        sum(loss.sum() for loss in losses) / math.log(2) / len("".join(same).encode())
    )


def in_utf_16(losses, texts):
    size = sum(len(text.encode("utf-16-le")) for text in texts)
    return sum(loss.sum() for loss in losses) / math.log(2) / size


RIGHT = {
    "answer_loss": [
        sentence_by_sentence,
        with_ignored_labels,
        with_weights,
        with_gather,
    ],
    "continuation": [with_a_for_loop, one_pass_more],
    "bits_per_byte": [with_numpy, with_log2],
}
WRONG = {
    "answer_loss": [
        (padding_by_pads_id, "the prompt counts, too"),
        (shifted_twice, "the first token of the answer is left out"),
        (unknown_words_left_out, "UNK is left out"),
        (detached, "gradient"),
        (with_item, "gradient"),
        (not_reduced, "the shape is"),
        (lambda logits, tokens, prompts: torch.tensor(1.5).double(), "differs"),
    ],
    "continuation": [
        (without_caches, "all tokens run through the model at each step"),
        (one_cache_for_all, "one cache serves all blocks"),
        (cut_afterwards, "passes go on behind EOS"),
        (in_training_mode, "changes its inputs in place"),
        (kept_between_calls, "two calls with the same inputs differ"),
        (with_one_block, "stopped with"),
        (never_pad_or_bos, "the ids are"),
        *[
            (changing_caches(change), "the ids are")
            for change in (forget_all_but_the_last, copy_the_first, reversed_list)
        ],
        (sampled, "two calls with the same inputs differ"),
        (lambda model, prompt, n: [], "no token is returned"),
        (lambda model, prompt, n: [5.5, 6.0], "no whole numbers"),
        (lambda model, prompt, n: "chat", "return the ids of the new tokens"),
        (lambda model, prompt, n: [4, 5], "the ids are [4, 5]"),
    ],
    "bits_per_byte": [
        (of_the_first_text, "differs"),
        (in_utf_16, "differs"),
        (composed, "differs"),
        (lambda losses, texts: 1.0, "differs"),
        (lambda losses, texts: losses, "return a"),
    ],
}
