"""The exercises of lesson 18, language models: reference answers and known mistakes."""

from typing import Any

import torch
from torch import Tensor, nn

from helpers import BOS, EOS, PAD, UNK
from helpers.caching import AttentionCache
from lessons.checking.comparing import plain, same
from lessons.checking.engine import Exercise, Part
from lessons.checking.findings import Stop, wrong

# ------------------------------------------------------------ 18.1 the answer's loss


def _sequences(seed: int, vocabulary: int, *lengths: tuple[int, int]) -> tuple:
    """Logits, tokens and prompts' lengths, for rows of (prompt, answer) tokens."""
    generator = torch.Generator().manual_seed(seed + 1)
    length = max(map(sum, lengths))
    tokens = torch.randint(4, vocabulary, (len(lengths), length), generator=generator)
    for row, (prompt, answer) in zip(tokens, lengths, strict=True):
        row[0] = BOS
        row[prompt + answer // 2] = UNK  # a label like any other
        row[prompt + answer - 1] = EOS
        row[prompt + answer :] = PAD
    shape = len(lengths), length, vocabulary
    logits = 3 * torch.randn(shape, generator=generator, dtype=torch.float64)
    return logits, tokens, torch.tensor([prompt for prompt, _ in lengths])


AFTER, REAL = "(places >= prompts[:, None])", "(tokens[:, 1:] != PAD)"
LOSS = "F.cross_entropy(logits[:, :-1][counted], tokens[:, 1:][counted])"
answer_loss = Exercise(
    """\
def my_answer_loss(logits, tokens, prompts):
    places = torch.arange(1, tokens.size(1))
    counted = (places >= prompts[:, None]) & (tokens[:, 1:] != PAD)
    return F.cross_entropy(logits[:, :-1][counted], tokens[:, 1:][counted])
""",
    Part(
        "my_answer_loss",
        {
            "the logits at a place are held against the token that stands there: they "
            "say the *next* one, `logits[:, :-1]` and `tokens[:, 1:]`": [
                {LOSS: LOSS.replace("logits[:, :-1]", "logits[:, 1:]")}
            ],
            "it is shifted the wrong way: the logits at a place are held against the "
            "token before it, and not the next one": {
                "torch.arange(1, tokens.size(1))": "torch.arange(tokens.size(1) - 1)",
                REAL: "(tokens[:, :-1] != PAD)",
                LOSS: LOSS.replace("logits[:, :-1]", "logits[:, 1:]").replace(
                    "tokens[:, 1:]", "tokens[:, :-1]"
                ),
            },
            "what counts is not shifted: it is told by the labels, `tokens[:, 1:]`, "
            "and their places": {
                "torch.arange(1, tokens.size(1))": "torch.arange(tokens.size(1) - 1)",
                REAL: "(tokens[:, :-1] != PAD)",
            },
            "padding is told by the tokens that are read: the labels tell, "
            "`tokens[:, 1:] != PAD`": {REAL: "(tokens[:, :-1] != PAD)"},
            "UNK is left out: it is a label like any other": {
                REAL: f"{REAL} & (tokens[:, 1:] != UNK)"
            },
            "all answers begin where the longest prompt ends: each row has its own": {
                "prompts[:, None]": "prompts.max()"
            },
            "logits are no log-probabilities: take `F.cross_entropy`": {
                "F.cross_entropy": "F.nll_loss"
            },
            "the prompt counts, too: leave out the labels before the answer": {
                f"{AFTER} & ": ""
            },
            "the first token of the answer is left out: it stands at the place "
            "`prompts`, and is predicted from the prompt's last token": {
                ">=": ">",
            },
            "the prompt's last token counts, too: the answer begins at the place "
            "`prompts`": {"prompts[:, None])": "prompts[:, None] - 1)"},
            "padding counts, too: leave out the labels that are PAD": {
                f" & {REAL}": ""
            },
            "the end of the answer is left out: the model has to learn EOS, too": {
                REAL: f"{REAL} & (tokens[:, 1:] != EOS)"
            },
            "the length of row 0's prompt serves for all rows": {
                "prompts[:, None]": "prompts[:1, None]"
            },
            "the losses are added up: take their mean": {
                LOSS: LOSS.replace("[counted])", "[counted], reduction='sum')")
            },
            "the sum is divided by the number of all labels: divide by those that "
            "count": {
                LOSS: LOSS.replace("[counted])", "[counted], reduction='sum')")
                + " / counted.numel()"
            },
            "the sum is divided by the number of sentences: divide by the number of "
            "tokens that count": {
                LOSS: LOSS.replace("[counted])", "[counted], reduction='sum')")
                + " / len(tokens)"
            },
            "the mean is taken for each sentence, then over sentences: each token that "
            "counts has the same weight": {
                LOSS: "torch.stack([F.cross_entropy(x[c], y[c]) for x, y, c in "
                "zip(logits[:, :-1], tokens[:, 1:], counted)]).mean()"
            },
            "probabilities go into `F.cross_entropy`: it takes logits": {
                LOSS: LOSS.replace("logits[", "logits.softmax(-1)[")
            },
            "this is the loss in bits: leave it in nats": {
                LOSS: f"{LOSS} / math.log(2)"
            },
            "the sign is reversed: the loss is minus the log-probability": {
                LOSS: f"-{LOSS}"
            },
        },
        lambda seed: [
            _sequences(seed, 9, (3, 4), (5, 2), (2, 3)),
            _sequences(seed + 1, 13, (6, 3), (2, 8 + seed % 3)),
            _sequences(seed + 2, 7, (2, 1), (9, 2), (4, 5), (3, 3), (7, 1)),
            _sequences(seed + 3, 11, (4, 20), (12, 15 + seed % 3)),
        ],
        [
            "the loss is the mean over the answers' tokens, EOS included",
        ],
        others="other lengths, and any number of sentences, work too",
    ),
    uses={"PAD": PAD, "EOS": EOS, "UNK": UNK},
)

# ------------------------------------------------------------ 18.2 prefill and decode


class Teller(nn.Module):
    """Looks like a LanguageModel; its logits depend on all tokens so far.

    It says EOS when `ends` tokens have gone before, and keeps how many tokens each of
    its passes was given.
    """

    def __init__(self, vocabulary: int, ends: int, n_blocks: int):
        super().__init__()
        self.vocabulary, self.ends, self.passes = vocabulary, ends, []
        self.blocks = nn.ModuleList(nn.Identity() for _ in range(n_blocks))

    def forward(
        self,
        tokens: Tensor,
        caches: list[AttentionCache] | None = None,
        *,
        real: Tensor | None = None,
    ) -> Tensor:
        """Logits (1, length, vocabulary); the caches hold the tokens themselves."""
        if len(self.passes) > 99:
            raise RuntimeError("100 passes, and no end: the loop goes on")
        caches = [AttentionCache() for _ in self.blocks] if caches is None else caches
        self.passes.append(tokens.size(1))
        x, new, read = tokens.double()[:, None, :, None], tokens.size(1), 0.0
        for number, (_, cache) in enumerate(zip(self.blocks, caches, strict=True)):
            kept, _ = cache.extend(x + number, x)  # each block keeps its own
            seen = kept[:, 0, :, 0]  # (1, so far)
            places = torch.arange(1, seen.size(1) + 1)
            sums = ((seen + 1) * (places + 1)).cumsum(dim=1)
            read = read + (1 + 0.7 * number) * sums[:, -new:, None]
        words = torch.arange(self.vocabulary)
        logits = torch.sin(1.3 * read + 2.1 * words * (1 + words))
        logits[..., EOS] = torch.where(places[-new:] == self.ends, 9.0, -9.0)
        return logits


def _to_continue(seed: int, prompt: int, ends: int, max_new: int) -> tuple:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, 14, (1, prompt), generator=generator)
    return Teller(14, ends, 1 + prompt % 3).eval(), ids, max_new


def _ids_and_passes(output: Any, model: Teller, prompt: Tensor, max_new: int) -> Tensor:
    """(2, MOST): the ids, then -1; and the tokens of each pass, then -1.

    One more pass, of the last token alone, is no mistake, and is left out.
    """
    ids = plain(output)
    if isinstance(ids, Tensor) and ids.dim() == 2 and len(ids) == 1:
        ids = ids[0]
    if isinstance(ids, Tensor | tuple) and not len(ids):
        raise Stop(wrong("no token is returned: append each token that is chosen"))
    if not isinstance(ids, Tensor) or ids.dim() != 1 or len(ids) > MOST:
        raise Stop(wrong("return the ids of the new tokens: a list, or a tensor (n,)"))
    if ids.is_floating_point() and not same(ids, ids.round()):
        raise Stop(wrong("the ids are no whole numbers"))
    found = torch.full((2, MOST), -1)
    found[0, : len(ids)] = ids.long()
    passes = torch.tensor(model.passes)
    if len(passes) == len(ids) + 1 and passes[-1] == 1:
        passes = passes[:-1]
    passes = passes[:MOST]
    found[1, : len(passes)] = passes
    return found


def _which_pass(value: Tensor, due: Tensor) -> str:
    """Whether the ids are wrong, or only what ran."""
    yours, theirs = ([x[x >= 0].tolist() for x in rows] for rows in (value, due))
    if yours[0] == theirs[0]:
        return (
            f"the ids are right, but the passes read {yours[1]} tokens, where "
            f"{theirs[1]} are due: the prompt at once, then one token each"
        )
    return f"the ids are {yours[0]}, due is {theirs[0]}"


MOST = 64
FIRST, NEXT = "model(prompt, caches)[0, -1]", "model(token.view(1, 1), caches)[0, -1]"
CHOOSE, APPEND = "token = logits.argmax()", "ids.append(token.item())"
STOP = "if token == EOS or len(ids) == max_new:"
WHOLE = "torch.cat([prompt, torch.tensor([ids])], dim=1)"
continuation = Exercise(
    """\
def my_generate(model, prompt, max_new):
    caches = [AttentionCache() for _ in model.blocks]
    ids, logits = [], model(prompt, caches)[0, -1]
    while True:
        token = logits.argmax()
        ids.append(token.item())
        if token == EOS or len(ids) == max_new:
            return ids
        logits = model(token.view(1, 1), caches)[0, -1]
""",
    Part(
        "my_generate",
        {
            "the ids are right, but all tokens run through the model at each step: "
            "hand over the caches, and the new token alone": {
                FIRST: "model(prompt)[0, -1]",
                NEXT: f"model({WHOLE})[0, -1]",
            },
            "the caches hold old tokens twice: after the prefill, hand over the new "
            "token alone": {NEXT: f"model({WHOLE}, caches)[0, -1]"},
            "the prompt is never put into the caches: hand them over in the prefill, "
            "too": {FIRST: "model(prompt)[0, -1]"},
            "the new token sees itself alone: hand over the caches that the prefill "
            "has filled": [
                {NEXT: "model(token.view(1, 1))[0, -1]"},
                {
                    NEXT: "model(token.view(1, 1), "
                    "[AttentionCache() for _ in model.blocks])[0, -1]"
                },
            ],
            "the prompt runs through the model twice: its last logits, from the "
            "prefill, choose the first new token": {
                FIRST: "model(prompt[:, -1:] if model(prompt, caches) is None else "
                "prompt, caches)[0, -1]"
            },
            "the prompt's last token is read twice: the prefill's last logits choose "
            "the first new token": {
                FIRST: "[model(prompt, caches), model(prompt[:, -1:], caches)]"
                "[1][0, -1]"
            },
            "the prefill reads the prompt's last token alone": {
                FIRST: "model(prompt[:, -1:], caches)[0, -1]"
            },
            "the logits of the prompt's first token choose the first new one: take the "
            "last, `[0, -1]`": {FIRST: "model(prompt, caches)[0, 0]"},
            "the ids are right, but the prompt runs token by token: the prefill is one "
            "pass": {
                FIRST: "[model(prompt[:, i : i + 1], caches)[0, -1] for i in "
                "range(prompt.size(1))][-1]"
            },
            "it goes on after EOS": {"token == EOS or ": ""},
            "the ids are right, but passes go on behind EOS: stop there": {
                "token == EOS or ": "",
                "return ids": "return ids[: (ids + [EOS]).index(EOS) + 1]",
            },
            "one cache serves all blocks, as `[AttentionCache()] * n` makes it: each "
            "block needs its own": {
                "[AttentionCache() for _ in model.blocks]": "[AttentionCache()] * "
                "len(model.blocks)"
            },
            "EOS is left out: it belongs to the answer": {
                APPEND: "ids += [token.item()] * (token != EOS)"
            },
            "the prompt is returned, too: return the new tokens": {
                "return ids": "return prompt[0].tolist() + ids"
            },
            "one token too many: max_new counts the new tokens": {
                "len(ids) == max_new": "len(ids) > max_new"
            },
            "one token too few: max_new counts the new tokens": {
                "len(ids) == max_new": "len(ids) == max_new - 1"
            },
            "max_new counts the prompt's tokens, too: it counts the new ones": {
                "len(ids) == max_new": "len(ids) + prompt.size(1) >= max_new"
            },
        },
        lambda seed: [
            _to_continue(seed, 4, 9, 12),
            _to_continue(seed + 1, 7, 40, 5 + seed % 3),
            _to_continue(seed + 2, 1, 3, 30),
            _to_continue(seed + 3, 11, 11, 6),
            _to_continue(seed + 4, 3, 60, 40 + seed % 3),
        ],
        [
            "each token is the likeliest after all before it",
            "the prompt is read in one pass, then each token alone",
        ],
        others="it stops at EOS, or after max_new tokens",
        doubt="",
        gradients=False,
        measure=_ids_and_passes,
        describe=_which_pass,
    ),
    uses={"AttentionCache": AttentionCache, "EOS": EOS},
)

# ------------------------------------------------------------ 18.3 bits per byte

TEXTS = (
    "le chat noir dort.",
    "l'élève préfère la forêt.",
    "où ?",
    "ça va très bien, merci 🙂",
    "cafe\u0301",  # the accent as a letter of its own: 6 bytes
    "il a mangé une pêche près de l'hôtel à midi.",
    "non.",
    " oui, bien sûr ! \n",
)


def _losses(seed: int, *texts: str) -> tuple[list[Tensor], list[str]]:
    """Nats of each token, a few tokens for each text."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [2 + len(text) // 4 for text in texts]
    losses = [3 * torch.rand(n, generator=generator).double() for n in sizes]
    return losses, [*texts]


NATS, BYTES = "sum(loss.sum() for loss in losses)", "len(text.encode())"
RESULT = "nats / math.log(2) / n_bytes"
bits_per_byte = Exercise(
    """\
def my_bits_per_byte(losses, texts):
    nats = sum(loss.sum() for loss in losses)
    n_bytes = sum(len(text.encode()) for text in texts)
    return nats / math.log(2) / n_bytes
""",
    Part(
        "my_bits_per_byte",
        {
            "letters are counted, not bytes: “é” is two bytes in UTF-8, "
            "`len(text.encode())`": {BYTES: "len(text)"},
            "the spaces and line ends at a text's ends are left out: they are bytes, "
            "too": {BYTES: "len(text.strip().encode())"},
            "a byte is added for each text: a line's end counts where the text has "
            "one": {BYTES: "len(text.encode()) + 1"},
            "the nats are not turned into bits: divide by ln 2": {
                RESULT: "nats / n_bytes"
            },
            "a nat is 1 / ln 2 = 1.44 bits: divide by ln 2, do not multiply": {
                RESULT: "nats * math.log(2) / n_bytes"
            },
            "the loss is averaged over all tokens: add the nats up": {
                NATS: "torch.cat(losses).mean()"
            },
            "bytes between the texts are counted, too: each text has its own alone": {
                f"sum({BYTES} for text in texts)": "len(' '.join(texts).encode())"
            },
            "these are bits per token: divide by the bytes of the texts": {
                f"sum({BYTES} for text in texts)": "sum(map(len, losses))"
            },
            "these are nats per token: turn them into bits, and divide by the bytes": {
                RESULT: "nats / sum(map(len, losses))"
            },
            "this is the perplexity: add up bits, and divide by the bytes": {
                RESULT: "torch.exp(nats / sum(map(len, losses)))"
            },
            "the tokens' losses are averaged: the bits of a text are their sum": {
                NATS: "sum(loss.mean() for loss in losses)"
            },
            "the bits per byte of each text are averaged: divide all bits by all "
            "bytes": {
                RESULT: "sum(loss.sum() / len(text.encode()) for loss, text in "
                "zip(losses, texts)) / len(texts) / math.log(2)"
            },
            "these are bytes per bit: turn the fraction round": {
                RESULT: "n_bytes * math.log(2) / nats"
            },
            "these are bits per text: divide by the bytes": {
                RESULT: "nats / math.log(2) / len(texts)"
            },
        },
        lambda seed: [
            _losses(seed, *TEXTS[:3]),
            _losses(seed + 1, *TEXTS[3:6]),
            _losses(seed + 2, TEXTS[1]),
            _losses(seed + 3, *TEXTS[seed % 3 :]),
        ],
        ["all bits are divided by all bytes"],
        others="other texts, and a single one, work too",
        doubt="",
        gradients=False,
    ),
)
