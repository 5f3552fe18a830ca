"""Answers to lesson 07's exercises that no table holds: right ones, and wrong ones."""

import numpy as np
import torch
from torch.nn import functional as F

from helpers import BOS, EOS, PAD

# ------------------------------------------------------------ 07.1 the decoder layer


def with_functions(parts, x, memory, mask, memory_mask):
    def look_back(y):
        return parts.self_attention(query=y, key=y, value=y, mask=mask)

    def look_across(y):
        return parts.cross_attention(y, memory, memory, mask=memory_mask)

    for residual, sublayer in zip(
        parts.residuals, (look_back, look_across, parts.feed_forward), strict=True
    ):
        x = residual(x, sublayer)
    return x


def with_sums(parts, x, memory, mask, memory_mask):
    """The residuals' own sums and norms, written out."""
    attend, across = parts.self_attention, parts.cross_attention
    sublayers = (
        lambda y: attend(y, y, y, mask),
        lambda y: across(y, memory, memory, memory_mask),
        lambda y: parts.feed_forward.contract(parts.feed_forward.expand(y).relu()),
    )
    for i, sublayer in enumerate(sublayers):
        residual = parts.residuals[i]
        if residual.norm_first:
            x = x + sublayer(residual.norm(x))
        else:
            x = residual.norm(x + sublayer(x))
    return x


def one_sentence_at_a_time(parts, x, memory, mask, memory_mask):
    rows = []
    for i in range(len(x)):
        own = [None if m is None else m[i : i + 1] for m in (mask, memory_mask)]
        rows.append(with_functions(parts, x[i : i + 1], memory[i : i + 1], *own)[0])
    return torch.stack(rows)


def detached(parts, x, memory, mask, memory_mask):
    return with_functions(parts, x, memory.detach(), mask, memory_mask)


def without_gradients(parts, *inputs):
    with torch.no_grad():
        return with_functions(parts, *inputs)


def own_causal_mask(parts, x, memory, mask, memory_mask):
    mask = torch.ones(x.size(1), x.size(1)).tril().bool()
    return with_functions(parts, x, memory, mask, memory_mask)


def own_causal_mask_if_any(parts, x, memory, mask, memory_mask):
    if mask is not None:
        mask = torch.ones(x.size(1), x.size(1)).tril().bool()
    return with_functions(parts, x, memory, mask, memory_mask)


def changes_x(parts, x, memory, mask, memory_mask):
    x += 0.1
    return with_functions(parts, x, memory, mask, memory_mask)


def values_from_the_target(parts, x, memory, mask, memory_mask):
    def look_across(y):
        return parts.cross_attention(y, memory, y, memory_mask)

    return parts.residuals[1](x, look_across)


def in_eval_mode(parts, x, memory, mask, memory_mask):
    return with_functions(parts.eval(), x, memory, mask, memory_mask)


def without_functions(parts, x, memory, mask, memory_mask):
    return parts.residuals[0](x, parts.self_attention(x, x, x, mask))


def never_the_norm_first(parts, x, memory, mask, memory_mask):
    for i, sublayer in enumerate(
        (
            lambda y: parts.self_attention(y, y, y, mask),
            lambda y: parts.cross_attention(y, memory, memory, memory_mask),
            parts.feed_forward,
        )
    ):
        x = parts.residuals[i].norm(x + sublayer(x))
    return x


def without_the_last_residual(parts, x, memory, mask, memory_mask):
    x = parts.residuals[0](x, lambda y: parts.self_attention(y, y, y, mask))
    x = parts.residuals[1](
        x, lambda y: parts.cross_attention(y, memory, memory, memory_mask)
    )
    return parts.feed_forward(x)


def without_norms(parts, x, memory, mask, memory_mask):
    x = x + parts.self_attention(x, x, x, mask)
    x = x + parts.cross_attention(x, memory, memory, memory_mask)
    return x + parts.feed_forward(x)


def one_mask_where_it_fits(parts, x, memory, mask, memory_mask):
    """The target's padding for the source's, where both have the same length."""
    if mask is not None and x.size(1) == memory.size(1):
        memory_mask = mask[..., -1:, :]
    return with_functions(parts, x, memory, mask, memory_mask)


def both_masks_where_it_fits(parts, x, memory, mask, memory_mask):
    if mask is not None and x.size(1) == memory.size(1):
        mask = mask & memory_mask
    return with_functions(parts, x, memory, mask, memory_mask)


def hands_over_the_attention(parts, x, memory, mask, memory_mask):
    return parts.residuals[0](x, parts.self_attention)


def takes_no_argument(parts, x, memory, mask, memory_mask):
    return parts.residuals[0](x, lambda: parts.self_attention(x, x, x, mask))


def skips_a_source_of_one(parts, x, memory, mask, memory_mask):
    if memory.size(1) > 1:
        return with_functions(parts, x, memory, mask, memory_mask)
    x = parts.residuals[0](x, lambda y: parts.self_attention(y, y, y, mask))
    return parts.residuals[2](x, parts.feed_forward)


def eight_tokens(parts, x, memory, mask, memory_mask):
    mask = mask if mask is None else mask[..., :8, :8]
    return with_functions(parts, x[:, :8], memory, mask, memory_mask)


def inverted(parts, x, memory, mask, memory_mask):
    return with_functions(parts, x, memory, ~mask, ~memory_mask)


# ------------------------------------------------------------ 07.2 shift a batch


def shift_by_lists(words):
    read, say = [], []
    for row in words.tolist():
        kept = [word for word in row if word != PAD]
        filled = [PAD] * (len(row) - len(kept))
        read.append([BOS, *kept, *filled])
        say.append([*kept, EOS, *filled])
    return torch.tensor(read), torch.tensor(say)


def shift_with_numpy(words):
    rows = words.numpy()
    first = np.full((len(rows), 1), BOS)
    read = np.concatenate([first, rows], axis=1)
    say = np.concatenate([rows, 0 * first], axis=1)
    say[np.arange(len(rows)), (rows != PAD).sum(1)] = EOS
    return read, say


def shift_with_scatter(words):
    longer = torch.cat([words, torch.zeros_like(words[:, :1])], dim=1)
    ends = (words != PAD).sum(1, keepdim=True)
    return [
        torch.cat([torch.full_like(words[:, :1], BOS), words], dim=1),
        longer.scatter(1, ends, EOS),
    ]


def shift_by_slices(words):
    read, say = shift_by_lists(words)
    rows = torch.cat([read[:, :1], say], dim=1)
    return rows[:, :-1], rows[:, 1:]


def shift_where(words):
    read = F.pad(words, (1, 0), value=BOS)
    longer = F.pad(words, (0, 1))
    return read, longer.where((longer != PAD) | (read == PAD), EOS)


def shift_to_floats(words):
    read, say = shift_by_lists(words)
    return read.float(), say.float()


def shift_in_place(words):
    words[words == 9] = 3
    return shift_by_lists(words)


def shift_to_eos(words):
    """EOS in place of all padding that is read."""
    read, say = shift_by_lists(words)
    return read.masked_fill(read == PAD, EOS), say


def shift_by_argmin(words):
    """Right only where every row has padding."""
    read = F.pad(words, (1, 0), value=BOS)
    say = F.pad(words, (0, 1))
    ends = (words == PAD).int().argmax(dim=1)
    say[torch.arange(len(words)), ends] = EOS
    return read, say


# ------------------------------------------------------------ 07.3 the greedy loop


def row_by_row(logits_of, source, steps):
    rows = []
    for one in source:
        row = [BOS]
        while len(row) <= steps and row[-1] != EOS:
            logits = logits_of(one[None], torch.tensor([row]))
            row.append(int(logits[0, -1].argmax()))
        rows.append(row[1:])
    longest = max(map(len, rows))
    return [row + [PAD] * (longest - len(row)) for row in rows]


def trimmed_afterwards(logits_of, source, steps):
    read = torch.full((len(source), 1), BOS)
    for _ in range(steps):
        best = logits_of(source, read).log_softmax(-1)[:, -1].topk(1).indices
        read = torch.cat([read, best], dim=1)
    written = read[:, 1:]
    before = (written == EOS).cumsum(1) - (written == EOS).long()
    written = written.masked_fill(before > 0, PAD)
    return written[:, : int((written != PAD).any(0).sum())]


def filled_up(logits_of, source, steps):
    """It stops early, and fills the columns up to `steps` with PAD."""
    rows = row_by_row(logits_of, source, steps)
    return [row + [PAD] * (steps - len(row)) for row in rows]


def reads_a_buffer(logits_of, source, steps):
    """It reads all places in each step, those not yet written, too."""
    read = source.new_zeros(len(source), steps + 1)
    read[:, 0] = BOS
    finished = torch.zeros(len(source), dtype=torch.bool)
    for step in range(steps):
        word = logits_of(source, read)[:, step].argmax(-1).masked_fill(finished, PAD)
        read[:, step + 1] = word
        finished |= word == EOS
        if finished.all():
            break
    return read[:, 1 : step + 2]


def in_floats(logits_of, source, steps):
    return torch.tensor(row_by_row(logits_of, source, steps)).float()


def loses_eos(logits_of, source, steps):
    read = torch.full((len(source), 1), BOS)
    finished = torch.zeros(len(source), dtype=torch.bool)
    for _ in range(steps):
        word = logits_of(source, read)[:, -1].argmax(-1)
        finished |= word == EOS
        read = torch.cat([read, word.masked_fill(finished, PAD)[:, None]], dim=1)
        if finished.all():
            break
    return read[:, 1:]


def without_a_loop(logits_of, source, steps):
    read = F.pad(torch.full((len(source), 1), BOS), (0, steps - 1), value=PAD)
    return logits_of(source, read).argmax(-1)


def with_a_buffer(logits_of, source, steps):
    read = source.new_zeros(len(source), steps + 1)
    read[:, 0] = BOS
    done = [False] * len(source)
    for step in range(1, steps + 1):
        logits = logits_of(source, read[:, :step]).numpy()
        for i, row in enumerate(logits):
            read[i, step] = PAD if done[i] else int(np.argmax(row[-1]))
            done[i] = done[i] or bool(read[i, step] == EOS)
        if all(done):
            return read[:, 1 : step + 1]
    return read[:, 1:]


def samples(logits_of, source, steps):
    read = torch.full((len(source), 1), BOS)
    for _ in range(steps):
        chances = logits_of(source, read)[:, -1].softmax(-1)
        read = torch.cat([read, torch.multinomial(chances, 1)], dim=1)
    return read[:, 1:]


def reads_floats(logits_of, source, steps):
    read = torch.ones(len(source), 1) * BOS
    for _ in range(steps):
        best = logits_of(source, read)[:, -1].argmax(-1, keepdim=True)
        read = torch.cat([read, best], dim=1)
    return read[:, 1:]


def takes_all_positions(logits_of, source, steps):
    return logits_of(source, torch.full((len(source), 1), BOS)).argmax(-1)


def first_row_alone(logits_of, source, steps):
    return row_by_row(logits_of, source[:1], steps)


def ends_rows_at_their_only_eos(logits_of, source, steps):
    read = torch.full((len(source), 1), BOS)
    for _ in range(steps):
        word = logits_of(source, read)[:, -1].argmax(-1, keepdim=True)
        read = torch.cat([read, word], dim=1)
        if ((read == EOS).sum(1) == 1).all():
            break
    return read[:, 1:].masked_fill((read[:, :-1] == EOS).cumsum(1) > 0, PAD)


def nearly_greedy(logits_of, source, steps):
    read = torch.full((len(source), 1), BOS)
    for _ in range(steps):
        chances = (10 * logits_of(source, read)[:, -1]).softmax(-1)
        read = torch.cat([read, torch.multinomial(chances, 1)], dim=1)
    return read[:, 1:]


def nine_steps(logits_of, source, steps):
    return row_by_row(logits_of, source, 9)


def unpadded(logits_of, source, steps):
    return [
        [word for word in row if word != PAD]
        for row in row_by_row(logits_of, source, steps)
    ]


SOUND = {
    "A": "causal mask on both",
    "B": "memory mask on the self-attention",
    "C": "right",
    "D": "cross-attention reads the target",
}
RIGHT = {
    "decoder_layer": [with_functions, with_sums, one_sentence_at_a_time, in_eval_mode],
    "shift": [
        shift_by_lists,
        shift_with_numpy,
        shift_with_scatter,
        shift_by_slices,
        shift_where,
    ],
    "greedy": [row_by_row, filled_up, reads_a_buffer, with_a_buffer],
    "diagnoses": [SOUND],
}
WRONG = {
    "decoder_layer": [
        (detached, "reaches memory"),
        (without_gradients, "no gradient reaches"),
        (own_causal_mask, "hides later tokens, but no padding"),
        (own_causal_mask_if_any, "hides later tokens, but no padding"),
        (without_the_last_residual, "the feed-forward network has no way around it"),
        (without_norms, "there is no norm"),
        (one_mask_where_it_fits, "it goes wrong"),
        (both_masks_where_it_fits, "it goes wrong"),
        (skips_a_source_of_one, "one source token it goes wrong: "),
        (eight_tokens, "the shape is (3, 8, "),
        (hands_over_the_attention, "an attention wants query, key and value"),
        (takes_no_argument, "your function does not take it"),
        (without_functions, "a residual got a tensor as its sublayer"),
        (changes_x, "changes its inputs in place"),
        (never_the_norm_first, "the norm always comes last"),
        (values_from_the_target, "keys and values come from two places"),
        (inverted, "the masks are the other way round"),
        (lambda *inputs: inputs[1], "the result differs"),
        (lambda *inputs: torch.zeros_like(inputs[1]), "the result differs"),
        (lambda *inputs: (with_functions(*inputs), None), "return a tensor"),
        (lambda parts, x, *_: parts.self_attention(x), "your code stopped with"),
    ],
    "shift": [
        (shift_to_floats, "ids are integers"),
        (
            lambda words: (
                shift_by_lists(words)[0],
                shift_by_lists(words)[1].where(shift_by_lists(words)[1] != PAD, -100),
            ),
            "hold -100",
        ),
        (shift_in_place, "changes its inputs in place"),
        (shift_by_argmin, "say: row 0 is"),
        (shift_to_eos, "read: row 1 is"),
        (lambda words: shift_by_lists(words)[0], "where two are due"),
        (
            lambda words: [part[:, :9] for part in shift_by_lists(words)],
            "it goes wrong: read has shape",
        ),
        (lambda words: (words, words), "read has shape"),
        (lambda words: shift_by_lists(words[:3]), "it goes wrong"),
    ],
    "greedy": [
        (trimmed_afterwards, "it never stops early"),
        (in_floats, "ids are integers"),
        (loses_eos, "EOS itself is lost"),
        (without_a_loop, "the writer is asked once"),
        (samples, "two calls with the same inputs differ"),
        (reads_floats, "read holds ids, so integers are due"),
        (takes_all_positions, "the shape is (3, 1) where (3, 5) is due"),
        (first_row_alone, "the shape is (1, 4) where (3, 5) is due"),
        (ends_rows_at_their_only_eos, "it never stops early"),
        (nearly_greedy, "two calls with the same inputs differ"),
        (nine_steps, "where `steps` ends the loop before EOS it goes wrong: "),
        (unpadded, "whose rows have the same length"),
        (lambda logits_of, source, steps: print("quatre cent"), "returns nothing"),
    ],
    "diagnoses": [
        ({"A": "right"}, "then the source's picture would be three full columns"),
        ({"C": "no causal mask"}, "then the target's picture would be a full square"),
        ({"B": 4}, "B: 4 is none of right"),
        ({"D": "dropout"}, "is none of right"),
    ],
}
