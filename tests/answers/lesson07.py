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
    "decoder_layer": [with_functions, with_sums, one_sentence_at_a_time],
    "shift": [
        shift_by_lists,
        shift_with_numpy,
        shift_with_scatter,
        shift_by_slices,
        shift_where,
    ],
    "greedy": [row_by_row, trimmed_afterwards, with_a_buffer],
    "diagnoses": [SOUND],
}
WRONG = {
    "decoder_layer": [
        (detached, "reaches memory"),
        (without_gradients, "no gradient reaches"),
        (own_causal_mask, "the result differs"),
        (own_causal_mask_if_any, "the result differs"),
        (changes_x, "changes its inputs in place"),
        (never_the_norm_first, "it goes wrong: the result differs"),
        (inverted, "the result differs"),
        (lambda *inputs: inputs[1], "the result differs"),
        (lambda *inputs: torch.zeros_like(inputs[1]), "the result differs"),
        (lambda *inputs: (with_functions(*inputs), None), "return a tensor"),
        (lambda parts, x, *_: parts.self_attention(x), "your code stopped with"),
    ],
    "shift": [
        (shift_to_floats, "ids are integers"),
        (shift_in_place, "changes its inputs in place"),
        (shift_by_argmin, "say: row 0 is"),
        (lambda words: shift_by_lists(words)[0], "where two are due"),
        (lambda words: (words, words), "read has shape"),
        (lambda words: shift_by_lists(words[:3]), "it goes wrong"),
    ],
    "greedy": [
        (samples, "the shape is (3, 9) where (3, 5) is due"),
        (reads_floats, "read holds ids, so integers are due"),
        (takes_all_positions, "the shape is (3, 1) where (3, 5) is due"),
        (first_row_alone, "the shape is (1, 4) where (3, 5) is due"),
        (nine_steps, "where `steps` ends the loop before EOS it goes wrong: "),
        (unpadded, "return a tensor, not a tuple"),
        (lambda logits_of, source, steps: print("quatre cent"), "returns nothing"),
    ],
    "diagnoses": [
        ({"A": "right"}, "then the source's picture would be three full columns"),
        ({"C": "no causal mask"}, "then the target's picture would be a full square"),
        ({"B": 4}, "B: 4 is none of right"),
        ({"D": "dropout"}, "is none of right"),
    ],
}
