"""Checks for the exercises of lesson 09, training."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from helpers import BOS, EOS, PAD
from helpers.batching import IdPair, make_batch, pad
from helpers.checks.core import (
    Finding,
    Mistake,
    Stop,
    attempt,
    check,
    recognise,
    right,
    same,
    untried,
    wrong,
)
from helpers.decoding import translate_ids
from helpers.evaluation import exact_match
from helpers.masks import padding_mask
from helpers.runtime import best_device
from helpers.training import cosine_rate, evaluate_loss, token_loss
from helpers.transformer import Transformer, TransformerConfig


def _named(made: Iterable[Mistake]) -> str:
    return "; and ".join(f"{mistake.name}: {mistake.hint}" for mistake in made)


# ------------------------------------------------------------------- 09.1 the shift

ROWS = [[7, 5, 9], [8], [6, 4]], [[5, 4], [9, 8, 7, 6, 5]]


def sides(rows: Sequence[Sequence[int]], **steps) -> tuple[Tensor, Tensor]:
    """What the decoder reads and what it must say, some STEPS done in another way."""
    steps = SIDES_STEPS | steps
    both = steps["read"](rows), steps["say"](rows)
    return steps["give"](*(steps["fill"](side) for side in both))


def _fill_left(rows: Sequence[Sequence[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*[PAD] * (longest - len(row)), *row] for row in rows])


def _fill_with_end(rows: Sequence[Sequence[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[EOS] * (longest - len(row))] for row in rows])


SIDES_STEPS = {
    "read": lambda rows: [[BOS, *row] for row in rows],
    "say": lambda rows: [[*row, EOS] for row in rows],
    "fill": pad,
    "give": lambda read, say: (read, say),
}
ONE_AHEAD = "at each place the label is the token that comes next"
SIDES_MISTAKES = [
    Mistake(
        "the labels are what the decoder reads, not shifted",
        f"{ONE_AHEAD}: reading <bos> it must say the first word",
        {"say": lambda rows: [[BOS, *row] for row in rows]},
    ),
    Mistake(
        "the decoder reads what it must say",
        "it starts with <bos> and is one token behind its labels",
        {"read": lambda rows: [[*row, EOS] for row in rows]},
    ),
    Mistake(
        "neither side has its mark, so both are the same",
        "the decoder reads <bos> and the sentence, and must say the sentence and <eos>",
        {"read": lambda rows: rows, "say": lambda rows: rows},
    ),
    Mistake(
        "the decoder's first token is missing: before <bos> it has nothing to go on",
        "put BOS in front of what is read",
        {"read": lambda rows: rows},
    ),
    *(
        Mistake(
            "the labels do not end in <eos>",
            "a model that is never asked for the end never stops: append EOS to each",
            {"say": lambda rows, more=more: [[*row, *more] for row in rows]},
        )
        for more in ([], [PAD])
    ),
    Mistake(
        "the labels begin with <bos>",
        "<bos> is given, never said: the labels are the sentence and EOS",
        {"say": lambda rows: [[BOS, *row, EOS] for row in rows]},
    ),
    Mistake(
        "the decoder also reads <eos>, in the longest sentence too",
        "after <eos> there is nothing to say: it reads BOS and the sentence",
        {"read": lambda rows: [[BOS, *row, EOS] for row in rows]},
    ),
    Mistake(
        "BOS and EOS have changed places",
        "BOS begins what is read, EOS ends what is said",
        {
            "read": lambda rows: [[EOS, *row] for row in rows],
            "say": lambda rows: [[*row, BOS] for row in rows],
        },
    ),
    Mistake(
        "the padding stands on the left",
        "fill up on the right: the course's positions count from the first token",
        {"fill": _fill_left},
    ),
    Mistake(
        "short rows are filled up with EOS",
        "fill up with PAD: the masks and the loss know padding by it",
        {"fill": _fill_with_end},
    ),
    Mistake(
        "the two sides are swapped",
        "return what the decoder reads first, the labels second",
        {"give": lambda read, say: (say, read)},
    ),
    Mistake(
        "only what the decoder reads is returned",
        "`return decoder_input, labels`",
        {"give": lambda read, say: read},
    ),
    Mistake(
        "only the labels are returned",
        "`return decoder_input, labels`",
        {"give": lambda read, say: say},
    ),
]


def _asked(output):
    """The answer with the ids where nothing is asked set to PAD.

    make_batch leaves EOS there in what the decoder reads, which does no harm.
    """
    if not (isinstance(output, tuple) and len(output) == 2):
        return output
    read, labels = output
    both = isinstance(read, Tensor) and isinstance(labels, Tensor)
    if not both or read.shape != labels.shape or read.is_complex():
        return output
    return read.masked_fill((labels == PAD) & (read == EOS), PAD), labels


def _asked_version(rows, **steps):
    return _asked(sides(rows, **steps))


@check
def both_sides(function: Callable) -> Iterator[Finding]:
    """Exercise 09.1: `function(rows)` returns decoder_input and labels, padded.

    rows is a list of lists of ids, both results are (batch, longest row + 1).
    """
    for rows, where in zip(ROWS, ("", "with other sentences, "), strict=True):
        output = attempt(function, [list(row) for row in rows])
        if isinstance(output, list) and len(output) == 2:
            output = tuple(output)
        if not same(_asked(output), _asked_version(rows)):
            made = recognise(_asked(output), _asked_version, SIDES_MISTAKES, (rows,))
            reason = _named(made) if made else _wrong_sides(output, rows)
            raise Stop(wrong(where + reason))
    yield right("the decoder reads <bos> and the sentence, padded on the right")
    yield right("it must say the sentence and <eos>: at each place, what comes next")
    if any(side.is_floating_point() for side in output):
        raise Stop(wrong("ids are whole numbers: an embedding takes no floats"))


def _wrong_sides(output, rows) -> str:
    """What can be said of a wrong answer that no known mistake gives."""
    if not (isinstance(output, tuple) and len(output) == 2):
        kind = type(output).__name__
        return f"return two tensors, decoder_input and labels, not: {kind}"
    for name, side, due in zip(
        ("decoder_input", "labels"), _asked(output), _asked_version(rows), strict=True
    ):
        if not isinstance(side, Tensor):
            return f"{name} is to be a tensor of ids, not: {type(side).__name__}"
        if side.shape != due.shape:
            shapes = f"{tuple(side.shape)}, not {tuple(due.shape)}"
            return f"{name} has the shape {shapes}: the longest row and one mark"
        for row, got, wanted in zip(rows, side.tolist(), due.tolist(), strict=True):
            if got != wanted:
                return f"{name} of the sentence {row} is {got}, not {wanted}"
    return "compare both results with the two lines of the lesson's picture"


# ------------------------------------------------------------- 09.2 the masked loss


def masked(logits: Tensor, labels: Tensor, **steps) -> Tensor:
    """The mean loss of the real tokens, with some of the STEPS done in another way."""
    steps = LOSS_STEPS | steps
    scores = steps["scores"](logits)
    losses = steps["pick"](scores.gather(-1, labels[..., None]).squeeze(-1))
    return steps["mean"](losses, steps["real"](labels))


def _mean(losses, real):
    return (losses * real).sum() / real.sum()


LOSS_STEPS = {
    "scores": lambda logits: logits.log_softmax(dim=-1),
    "pick": lambda log_probabilities: -log_probabilities,
    "real": lambda labels: labels != PAD,
    "mean": _mean,
}
DIVIDE = "add up over all real tokens, then divide once, by how many they are"
LOSS_MISTAKES = [
    Mistake(
        "padding counts like a word",
        f"`labels != PAD` says which tokens are real; {DIVIDE}",
        {"real": lambda labels: torch.ones_like(labels, dtype=torch.bool)},
    ),
    Mistake(
        "the loss is that of the padding alone",
        "the real tokens are those where `labels != PAD`",
        {"real": lambda labels: labels == PAD},
    ),
    Mistake(
        "the ends of the sentences do not count",
        "only PAD is left out: EOS is a token that the model must learn to say",
        {"real": lambda labels: (labels != PAD) & (labels != EOS)},
    ),
    Mistake(
        "the sum is divided by the number of all places, padding included",
        DIVIDE,
        {"mean": lambda losses, real: (losses * real).mean()},
    ),
    Mistake(
        "it is the mean of the sentences' means",
        f"a short sentence's words would weigh more than a long one's: {DIVIDE}",
        {"mean": lambda losses, real: ((losses * real).sum(1) / real.sum(1)).mean()},
    ),
    Mistake(
        "the sum over the tokens is not divided",
        DIVIDE,
        {"mean": lambda losses, real: (losses * real).sum()},
    ),
    Mistake(
        "the sum is divided by the number of sentences",
        DIVIDE,
        {"mean": lambda losses, real: (losses * real).sum() / len(losses)},
    ),
    Mistake(
        "a loss for each token is returned",
        f"one number is due: {DIVIDE}",
        {"mean": lambda losses, real: losses * real},
    ),
    Mistake(
        "a loss for each token is returned, without the padding",
        f"one number is due: {DIVIDE}",
        {"mean": lambda losses, real: losses[real]},
    ),
    Mistake(
        "the sign is wrong",
        "the loss is *minus* the logarithm of the right token's probability",
        {"pick": lambda log_probabilities: log_probabilities},
    ),
    Mistake(
        "the softmax is missing",
        "logits are no logarithms of probabilities: `logits.log_softmax(dim=-1)` is",
        {"scores": lambda logits: logits},
    ),
    Mistake(
        "the logarithm is missing",
        "`softmax` gives probabilities; the loss takes their logarithm, `log_softmax`",
        {"scores": lambda logits: logits.softmax(dim=-1)},
    ),
    Mistake(
        "the softmax is taken twice",
        "`F.cross_entropy` has one inside: give it the logits as they are",
        {"scores": lambda logits: logits.softmax(-1).log_softmax(-1)},
    ),
    Mistake(
        "the softmax runs over the places of the sentence",
        "the tokens of the vocabulary compete, the last axis: `dim=-1`",
        {"scores": lambda logits: logits.log_softmax(dim=1)},
    ),
    Mistake(
        "the softmax runs over the sentences",
        "the tokens of the vocabulary compete, the last axis: `dim=-1`",
        {"scores": lambda logits: logits.log_softmax(dim=0)},
    ),
]


def _logits(seed: int, *lengths: int, vocab: int = 11) -> tuple[Tensor, Tensor]:
    """Random logits (batch, longest, vocab), and labels, so many real ones a row."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), max(lengths))
    labels = torch.randint(4, vocab, shape, generator=generator)
    for row, length in enumerate(lengths):
        labels[row, length - 1] = EOS
        labels[row, length:] = PAD
    return 2 * torch.randn(*shape, vocab, generator=generator), labels


@check
def masked_loss(function: Callable, *, seed: int = 0) -> Iterator[Finding]:
    """Exercise 09.2: `function(logits, labels)` is the mean loss of the real tokens.

    logits (batch, length, vocab_size), labels (batch, length); one number comes out.
    """
    probe = _logits(seed, 6, 2, 3)
    _demand(function, masked, probe, LOSS_MISTAKES)
    yield right("the mean over the real tokens, each with the same weight")
    _demand(function, masked, _logits(seed, 4, 4), LOSS_MISTAKES, "without padding, ")
    logits, labels = probe
    longer = F.pad(logits, (0, 0, 0, 3), value=5.0), F.pad(labels, (0, 3), value=PAD)
    _demand(function, masked, longer, LOSS_MISTAKES, "with three columns of PAD more, ")
    yield right("more padding changes nothing")
    _demand_gradient(function, probe)
    yield right("its gradient teaches the real places and no others")


def _demand(function, version, inputs, mistakes, where="") -> None:
    """Stop with a finding unless the function gives what `version` does."""
    output, expected = _loss_of(function, inputs), version(*inputs)
    if same(output, expected):
        return
    if made := recognise(output, version, mistakes, inputs):
        raise Stop(wrong(where + _named(made)))
    if output.shape != expected.shape:
        shape = tuple(output.shape)
        raise Stop(wrong(f"{where}one number is due, not a tensor of shape {shape}"))
    if not output.isfinite():
        raise Stop(wrong(f"{where}the loss is {output:.0f}: a logarithm of 0?"))
    raise Stop(wrong(f"{where}the loss is {output:.4f}, and {expected:.4f} is due"))


def _loss_of(function, inputs) -> Tensor:
    output = attempt(function, *inputs)
    if isinstance(output, float | int) and not isinstance(output, bool):
        output = torch.tensor(float(output))
    if not isinstance(output, Tensor) or output.is_complex():
        said = type(output).__name__
        raise Stop(wrong(f"return one number, the loss, as a tensor, not: {said}"))
    return output


def _demand_gradient(function, probe) -> None:
    logits, labels = probe[0].clone().requires_grad_(), probe[1]
    output = attempt(function, logits, labels)
    if not (isinstance(output, Tensor) and output.requires_grad):
        raise Stop(
            wrong(
                "no gradient reaches the logits, so nothing could be learnt: no "
                "`.item()`, `float(…)`, `detach` or `no_grad` on the way"
            )
        )
    (gradient,) = torch.autograd.grad(output, logits)
    if gradient[labels == PAD].any():
        raise Stop(wrong("the right number, but a gradient reaches padded places"))


# ---------------------------------------------------------- 09.3 label smoothing


def smoothed(logits: Tensor, labels: Tensor, epsilon: float, **steps) -> Tensor:
    """Cross-entropy with a smoothed target, some STEPS done in another way."""
    steps = SMOOTH_STEPS | steps
    target = steps["target"](logits.size(-1), labels, epsilon)
    scores = steps["scores"](logits, epsilon)
    return steps["mean"](steps["cross"](target, scores))


def _target(vocab, labels, right_one, others):
    return torch.where(F.one_hot(labels, vocab).bool(), right_one, others)


def _kullback_leibler(target, scores):
    entropy = -torch.xlogy(target, target).sum(-1)
    return -(target * scores).sum(-1) - entropy


def _target_mistake(name, hint, shares):
    """shares(epsilon, vocab) -> what the right token gets, and each of the others."""
    return Mistake(
        name,
        hint,
        {"target": lambda vocab, labels, e: _target(vocab, labels, *shares(e, vocab))},
    )


SMOOTH_STEPS = {
    "target": lambda vocab, labels, e: _target(
        vocab, labels, 1 - e + e / vocab, e / vocab
    ),
    "scores": lambda logits, e: logits.log_softmax(dim=-1),
    "cross": lambda target, scores: -(target * scores).sum(dim=-1),
    "mean": torch.mean,
}
EVERYONE = (
    "ε is shared among all V tokens, the right one included: 1 - ε + ε/V for the right "
    "one, ε/V for each other"
)
SMOOTH_MISTAKES = [
    _target_mistake(
        "ε is shared among the wrong tokens only",
        f"that is another definition, ε/(V - 1) each; in PyTorch's, {EVERYONE}",
        lambda e, vocab: (1 - e, e / (vocab - 1)),
    ),
    _target_mistake(
        "the target sums to less than 1",
        EVERYONE,
        lambda e, vocab: (1 - e, e / vocab),
    ),
    _target_mistake(
        "the target sums to more than 1: the right token keeps all of its 1",
        f"it must give ε away first; {EVERYONE}",
        lambda e, vocab: (1 + e / vocab, e / vocab),
    ),
    _target_mistake(
        "the target sums to more than 1",
        f"the right token keeps all of its 1 and the others get ε/V each; {EVERYONE}",
        lambda e, vocab: (1.0, e / vocab),
    ),
    _target_mistake(
        "nothing is smoothed",
        EVERYONE,
        lambda e, vocab: (1.0, 0.0),
    ),
    _target_mistake(
        "every wrong token gets ε whole",
        EVERYONE,
        lambda e, vocab: (1 - e, e),
    ),
    _target_mistake(
        "the right token gets 1 - ε and the wrong ones nothing",
        EVERYONE,
        lambda e, vocab: (1 - e, 0.0),
    ),
    _target_mistake(
        "ε and 1 - ε have changed places",
        EVERYONE,
        lambda e, vocab: (e + (1 - e) / vocab, (1 - e) / vocab),
    ),
    Mistake(
        "the model's probabilities are smoothed, not the target",
        f"leave `log_softmax` as it is and change what it is compared with: {EVERYONE}",
        {
            "scores": lambda logits, e: (
                (1 - e) * logits.softmax(-1) + e / logits.size(-1)
            ).log(),
            "target": lambda vocab, labels, e: F.one_hot(labels, vocab).float(),
        },
    ),
    Mistake(
        "the target's own entropy is taken away",
        "that is the Kullback–Leibler divergence: its gradient is the same, its number "
        "is not; leave `target * target.log()` out",
        {"cross": _kullback_leibler},
    ),
    Mistake(
        "the sign is wrong",
        "minus the sum of target times log-probability",
        {"cross": lambda target, scores: (target * scores).sum(dim=-1)},
    ),
    Mistake(
        "the mean runs over the vocabulary, too",
        "sum over the vocabulary, then the mean over the tokens",
        {"cross": lambda target, scores: -(target * scores).mean(dim=-1)},
    ),
    Mistake(
        "the sum over the tokens is not divided",
        "take the mean over the tokens",
        {"mean": torch.sum},
    ),
    Mistake(
        "a loss for each token is returned",
        "one number is due, their mean",
        {"mean": lambda losses: losses},
    ),
    Mistake(
        "the logarithm is missing",
        "the target is multiplied with log-probabilities: `log_softmax`",
        {"scores": lambda logits, e: logits.softmax(dim=-1)},
    ),
    Mistake(
        "the softmax is missing",
        "logits are no logarithms of probabilities: `logits.log_softmax(dim=-1)` is",
        {"scores": lambda logits, e: logits},
    ),
]


@check
def smoothed_loss(function: Callable, *, seed: int = 0) -> Iterator[Finding]:
    """Exercise 09.3: `function(logits, labels, epsilon)` is the smoothed mean loss.

    logits (tokens, vocab_size), labels (tokens,): no padding among them.
    """
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(5, 7, generator=generator)
    labels = torch.randint(7, (5,), generator=generator)
    _demand(function, smoothed, (logits, labels, 0.1), SMOOTH_MISTAKES)
    yield right("ε = 0.1: equal to `F.cross_entropy(…, label_smoothing=0.1)`")
    for epsilon in (0.0, 0.4, 1.0):
        inputs = (logits, labels, epsilon)
        _demand(function, smoothed, inputs, SMOOTH_MISTAKES, f"with ε = {epsilon:g}, ")
    yield right("other values of ε work too, 0 and 1 among them")
    wide = torch.randn(3, 50, generator=generator)
    inputs = (wide, torch.tensor([0, 49, 17]), 0.1)
    _demand(function, smoothed, inputs, SMOOTH_MISTAKES, "with a vocabulary of 50, ")
    sure = torch.zeros(2, 7)
    sure[:, 3] = 200.0  # in float32 the probability of every other token is 0
    inputs = (sure, torch.tensor([3, 4]), 0.1)
    try:
        _demand(function, smoothed, inputs, ())
    except Stop as stop:
        text = "take `log_softmax`, not the logarithm of `softmax`, which reaches 0"
        where = "where the model is very sure, "
        raise Stop(wrong(f"{where}{stop.finding.text}: {text}")) from None
    yield right("and it stays finite where the model is very sure")


# ----------------------------------------------------------- 09.4 three trainings

VOCAB, LETTERS = 20, 16


@dataclass(frozen=True)
class Training:
    """What a training of exercise 09.4 showed; losses in nats per target token."""

    steps: list[int]
    train_loss: list[float]  # of the batch of that step, as the training computed it
    validation_loss: list[float]
    exchanged_loss: float  # of validation, each source exchanged for another
    exact: float  # share of new sequences reversed without a fault, token by token


class _Open(Transformer):
    """A Transformer whose decoder sees what it is to say."""

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        x = self.positions(self.target_embedding(target))
        return self.decoder(x, memory, padding_mask(target), padding_mask(source))


class _Deaf(Transformer):
    """A Transformer whose decoder does not hear the encoder."""

    def encode(self, source: Tensor) -> Tensor:
        return 0 * super().encode(source)


def _reversals(count: int, generator: torch.Generator) -> list[IdPair]:
    """Random sequences of three to eight letters, each with its reverse."""
    pairs = []
    for _ in range(count):
        length = int(torch.randint(3, 9, (), generator=generator))
        row = torch.randint(4, VOCAB, (length,), generator=generator).tolist()
        pairs.append((row, row[::-1]))
    return pairs


FAULTS = {
    "A": "by heart",
    "B": "sees the answer",
    "C": "does not hear",
}
_MODELS = {"by heart": Transformer, "sees the answer": _Open, "does not hear": _Deaf}
STEPS, EVERY = 280, 20


def trainings() -> dict[str, Training]:
    """The trainings of exercise 09.4, and a healthy one, each really run.

    A small model is to write sequences of letters backwards.
    """
    with torch.random.fork_rng(devices=[]):
        names = {"healthy": "healthy", **FAULTS}
        return {name: _training(fault) for name, fault in names.items()}


def _training(fault: str) -> Training:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    sizes = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 1, "dropout": 0.0}
    config = TransformerConfig(
        VOCAB, VOCAB, **sizes, norm_first=True, share_embeddings=False
    )
    device = best_device()
    model = _MODELS.get(fault, Transformer)(config).to(device)
    validation = _reversals(200, generator)
    pairs = _reversals(40 if fault == "by heart" else 48 * STEPS, generator)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), fused=True)
    steps, train_loss, validation_loss = [], [], []
    for step in range(1, STEPS + 1):
        start = 48 * (step - 1) % len(pairs)
        batch = make_batch(pairs[start : start + 48])
        for group in optimizer.param_groups:
            group["lr"] = cosine_rate(step / STEPS, peak=1e-2, warmup=0.1)
        loss, _ = token_loss(model, batch.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 1 or step % EVERY == 0:
            steps.append(step)
            train_loss.append(loss.item())
            validation_loss.append(evaluate_loss(model, validation))
    sources, targets = zip(*validation, strict=True)
    exchanged = list(zip(sources[1:] + sources[:1], targets, strict=True))
    said = translate_ids(model, sources, max_length=12)
    return Training(
        steps,
        train_loss,
        validation_loss,
        evaluate_loss(model, exchanged),
        exact_match(said, list(targets)),
    )


# What the lesson offers as answers, and what to think about where one is wrong.
_SIGNS = {
    "by heart": (
        "it is good on what it trains on and bad on what is new, and worse from step "
        "to step: which fault widens the gap between the two curves?"
    ),
    "sees the answer": (
        "both curves fall nearly to 0, and faster than the healthy one's, yet what it "
        "writes by itself is wrong. What does it have in training, and misses then?"
    ),
    "does not hear": (
        "both curves stop together, far above 0, and another source makes no "
        "difference: what does it go by?"
    ),
}
_REFUTED = {
    "rate too high": "the loss would jump about or stay at ln 16 and more, both curves",
    "padding in the loss": (
        "the training loss would be the lower one from early on, and "
        "what it writes could still be sound"
    ),
    "labels not shifted": (
        "the model would learn to repeat the token it reads: the validation loss, "
        "which is shifted rightly, would rise far above its start"
    ),
}


def _words(text: str) -> str:
    """Small letters, no punctuation."""
    return " ".join(re.findall(r"\w+", text.lower()))


@check
def diagnosis(**answers) -> Iterator[Finding]:
    """Exercise 09.4: for each of A, B and C the name of its fault."""
    choice = {_words(fault): fault for fault in (*_SIGNS, *_REFUTED)}
    for name, fault in FAULTS.items():
        answer = answers.get(name)
        if answer is None or answer is Ellipsis:
            yield untried(f"training {name}: not attempted yet")
            continue
        said = choice.get(_words(answer)) if isinstance(answer, str) else None
        if said == fault:
            yield right(f"training {name}: {fault}")
        elif said:
            against = f" ({_REFUTED[said]})" if said in _REFUTED else ""
            yield wrong(f"training {name} is not “{said}”{against}: {_SIGNS[fault]}")
        else:
            offered = ", ".join(f"“{fault}”" for fault in choice.values())
            yield wrong(
                f"training {name}: {answer!r:.40} is none of the six, {offered}"
            )
