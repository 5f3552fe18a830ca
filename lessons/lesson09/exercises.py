"""The exercises of lesson 09, training: answers, mistakes, and four trainings."""

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import EOS, PAD, UNK
from helpers.batching import Batch, IdPair, make_batch
from helpers.decoding import translate_ids
from helpers.evaluation import exact_match
from helpers.masks import padding_mask
from helpers.runtime import best_device
from helpers.training import cosine_rate, evaluate_loss, token_loss
from helpers.transformer import Transformer, TransformerConfig
from lessons.checking.comparing import plain, same
from lessons.checking.engine import Exercise, Part, Trial
from lessons.checking.findings import Stop, wrong
from lessons.checking.values import Values

# ------------------------------------------------------------ 09.1 the masked loss

LOGS, REAL = "logits.log_softmax(dim=-1)", "labels != PAD"
MEAN = "(losses * real).sum() / real.sum()"
DIVIDE = "add up over all real tokens, then divide once, by how many they are"
LAST = "the tokens of the vocabulary compete, on the last axis: `dim=-1`"
LOSS_MISTAKES = {
    f"padding counts like a word: {DIVIDE}": {REAL: "labels == labels"},
    "the loss is that of the padding alone: real tokens have `labels != PAD`": {
        REAL: "labels == PAD"
    },
    "the ends of the sentences do not count: EOS is a token that the model must "
    "predict": {REAL: "(labels != PAD) & (labels != EOS)"},
    "`<unk>` does not count: it stands for a word, and only PAD is no real token": {
        REAL: "(labels != PAD) & (labels != UNK)"
    },
    "a real token that costs 0 is not counted: a token is real where its label is not "
    "PAD, whatever it costs": {REAL: "(labels != PAD) & (losses > 0)"},
    f"the sum is divided by all places, padding included: {DIVIDE}": {
        MEAN: "(losses * real).mean()"
    },
    "it is the mean of the sentences' means, in which tokens of short sentences weigh "
    f"more: {DIVIDE}": {MEAN: "((losses * real).sum(1) / real.sum(1)).mean()"},
    f"the sum over the tokens is not divided: {DIVIDE}": {
        MEAN: "(losses * real).sum()"
    },
    f"the sum is divided by the number of sentences: {DIVIDE}": {
        MEAN: "(losses * real).sum() / len(losses)"
    },
    f"a loss for each token is returned, where one number is due: {DIVIDE}": [
        {MEAN: "losses * real"},
        {MEAN: "losses[real]"},
    ],
    "the logarithm has the base 2: nats have the natural one": {
        MEAN: f"{MEAN} / 0.6931471805599453"
    },
    "this is the perplexity: leave out the last exponential": {MEAN: f"({MEAN}).exp()"},
    "the labels are smoothed: the formula takes the right label alone": {
        MEAN: "F.cross_entropy(logits[real], labels[real], label_smoothing=0.1)"
    },
    "the sign is wrong: the loss is *minus* the logarithm": {"-logs": "logs"},
    "the softmax is missing: `log_softmax` makes logarithms of probabilities of the "
    "logits": {LOGS: "logits"},
    "the logarithm is missing: `log_softmax`": {LOGS: "logits.softmax(dim=-1)"},
    "the softmax is taken twice: `F.cross_entropy` has one inside, and takes logits": {
        LOGS: "logits.softmax(dim=-1).log_softmax(dim=-1)"
    },
    f"the softmax runs over the positions: {LAST}": {LOGS: "logits.log_softmax(dim=1)"},
    f"the softmax runs over the sentences: {LAST}": {LOGS: "logits.log_softmax(dim=0)"},
    "a probability has become 0, and its logarithm infinite: `log_softmax` is exact": {
        LOGS: "logits.softmax(dim=-1).log()"
    },
}


def _drawn(seed: int, lowest: int, count: int = 5) -> int:
    """A size that depends on the seed."""
    generator = torch.Generator().manual_seed(seed)
    return lowest + int(torch.randint(count, (), generator=generator))


def _logits(
    seed: int, *lengths: int, vocab: int = 11, scale: float = 2
) -> tuple[Tensor, Tensor]:
    """Random logits (batch, longest, vocab), and labels, so many real ones a row."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), max(lengths))
    labels = torch.randint(4, vocab, shape, generator=generator)
    labels[0, 0] = UNK  # a real token, too
    for row, length in enumerate(lengths):
        labels[row, length - 1] = EOS
        labels[row, length:] = PAD
    return scale * torch.randn(*shape, vocab, generator=generator), labels


def _large_logits(seed: int) -> tuple[Tensor, Tensor]:
    """Large logits and labels: one label is so sure that it costs exactly 0."""
    logits, labels = _logits(seed, 5, 3, scale=300)
    logits[0, 0, labels[0, 0]] = 9000
    return logits, labels


def _number(output: object, *inputs: Tensor) -> Tensor:
    """A loss as a tensor without axes; others as they are, to be compared."""
    value = plain(output)
    if not isinstance(value, Tensor) or value.is_complex() or value.dtype == torch.bool:
        kind = type(output).__name__
        raise Stop(wrong(f"return one number, the loss, as a tensor, not: {kind}"))
    return value.reshape(()) if value.shape == (1,) else value


masked_loss = Exercise(
    """\
def my_loss(logits, labels):
    logs = logits.log_softmax(dim=-1)
    losses = -logs.gather(-1, labels[..., None]).squeeze(-1)
    real = labels != PAD
    return (losses * real).sum() / real.sum()
""",
    Part(
        "my_loss",
        LOSS_MISTAKES,
        lambda seed: [
            _logits(seed, 6, 2, 3),
            _logits(seed, 3, _drawn(seed, 6), 5, 1, vocab=_drawn(seed, 9)),
        ],
        ["the mean over the real tokens, each with the same weight"],
        trials=[
            Trial(_logits(1, 4, 4), before="without padding: "),
            Trial(_logits(2, 1), before="with one token: "),
            Trial(_logits(3, 2, 200, 30), before="with 200 tokens: "),
            Trial(
                _large_logits(4),
                ["large logits do no harm"],
                "with large logits: ",
                gradients="the gradient is not that of the formula: `log_softmax` is "
                "exact where a probability is nearly 0",
            ),
        ],
        measure=_number,
        describe=lambda value, due: f"the loss is {value:.4g}, and {due:.4g} is due",
    ),
    uses={"PAD": PAD, "EOS": EOS, "UNK": UNK},
)

# ------------------------------------------------------------ 09.2 the training step

RATE = "d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)"
ADAM = "torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)"
ZERO, BACK = "        optimizer.zero_grad()\n", "        loss.backward()\n"
CLIP = "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
STEP = "        optimizer.step()\n"
EACH = """\
        for parameter in model.parameters():
            nn.utils.clip_grad_norm_([parameter], 1.0)
"""
SET = """\
        for group in optimizer.param_groups:
            group["lr"] = rate
"""
LOSS = "F.cross_entropy(logits, labels, ignore_index=PAD)"
MEANS = (
    "torch.stack([F.cross_entropy(model(batch.source, batch.decoder_input)[row], "
    "batch.labels[row], ignore_index=PAD) for row in range(len(batch.source))]).mean()"
)
AFTER = (
    "F.cross_entropy(model(batch.source, batch.decoder_input).flatten(0, 1), "
    "labels, ignore_index=PAD).item()"
)
FORMULA = "d_model⁻⁰·⁵ · min(step⁻⁰·⁵, step · warmup_steps⁻¹·⁵)"
STEP_MISTAKES = {
    "the gradients of all steps add up: `zero_grad` before each `backward`": {ZERO: ""},
    "the norm of all gradients together is not clipped to 1 before the step: "
    "`clip_grad_norm_` after `backward`": [
        {CLIP: ""},
        {CLIP: CLIP.replace("norm", "value")},
        {CLIP: "", STEP: STEP + CLIP},
        {CLIP: "", BACK: CLIP + BACK},
        {CLIP: EACH},
    ],
    "the weights do not move: `optimizer.step()` after `backward`, with no `zero_grad` "
    "between the two": [{STEP: ""}, {ZERO: "", BACK: BACK + ZERO}],
    "a gradient with a norm below 1 must stay as it is; a longer one gets the norm 1": [
        {
            CLIP: "        norm = nn.utils.get_total_norm([p.grad for p in "
            "model.parameters() if p.grad is not None])\n"
            "        for p in model.parameters():\n"
            "            if p.grad is not None:\n"
            "                p.grad /= norm\n"
        },
        {CLIP: CLIP.replace("1.0", "0.5")},
    ],
    "the two betas are exchanged: (0.9, 0.98)": {
        "betas=(0.9, 0.98)": "betas=(0.98, 0.9)"
    },
    "the loss is a sum over the tokens: take their mean": {
        "ignore_index=PAD": "ignore_index=PAD, reduction='sum'"
    },
    "the labels are smoothed: this exercise has no smoothing": {
        "ignore_index=PAD": "ignore_index=PAD, label_smoothing=0.1"
    },
    "the decoder reads the labels: it must read `batch.decoder_input`": {
        "batch.source, batch.decoder_input": "batch.source, batch.labels"
    },
    "Adam has PyTorch's usual betas: (0.9, 0.98) are the paper's": {
        "betas=(0.9, 0.98)": "betas=(0.9, 0.999)"
    },
    "there is weight decay: Adam has none here": [
        {ADAM: ADAM.replace("Adam", "AdamW")},
        {"eps=1e-9": "eps=1e-9, weight_decay=0.01"},
    ],
    "it is the mean of the sentences' means, in which tokens of short sentences weigh "
    f"more: {DIVIDE}": {LOSS: MEANS},
    "a real token does not count: only PAD is none, EOS and `<unk>` are real": [
        {LOSS: LOSS.replace("labels,", f"labels.where(labels != {token}, PAD),")}
        for token in ("EOS", "UNK")
    ],
    "this is plain gradient descent, not Adam": {
        ADAM: "torch.optim.SGD(model.parameters())"
    },
    "Adam is made anew in each step and forgets its means: make it before the loop": {
        SET: f"        optimizer = {ADAM}\n{SET}"
    },
    "the rate never changes: set `group['lr']` in each step": {SET: ""},
    "the rate is set after the step, so each step has that of the one before": {
        SET: "",
        STEP: STEP + SET,
    },
    "the steps are counted from 0: `enumerate(batches, start=1)`": [
        {RATE: RATE.replace("step**", "max(1, step - 1)**")},
        {"start=1": "start=0"},
    ],
    f"the rate takes the larger of the two, not the smaller: {FORMULA}": {
        "min(": "max("
    },
    f"the rate never falls: {FORMULA}": {
        RATE: "d_model**-0.5 * step * warmup_steps**-1.5"
    },
    f"the rate never rises, there is no warm-up: {FORMULA}": {
        RATE: "d_model**-0.5 * step**-0.5"
    },
    f"the rate is not scaled by d_model⁻⁰·⁵: {FORMULA}": {"d_model**-0.5 * ": ""},
    f"the warm-up has another exponent: {FORMULA}": [
        {"warmup_steps**-1.5": "warmup_steps**-0.5"},
        {"warmup_steps**-1.5": "warmup_steps**-1"},
    ],
    "padding counts in the loss: `ignore_index=PAD`, or `my_loss`": {
        "ignore_index=PAD": ""
    },
    "the labels are what the decoder reads: take `batch.labels`": {
        "batch.labels": "batch.decoder_input"
    },
    "the losses are those after the steps: keep each loss before its step": {
        "loss.item()": AFTER
    },
    "a copy of the model is trained: take the steps with the model that is given": {
        "    optimizer = ": "    model = copy.deepcopy(model)\n    optimizer = "
    },
}


def _run(seed: int, d_model: int, steps: int, warmup_steps: int) -> tuple:
    """A model in float64 with large weights, batches with padding, the warm-up.

    The model is in evaluation mode, as a measurement would leave it.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = {"d_model": d_model, "n_heads": 2, "d_ff": 16, "n_layers": 1}
        config = TransformerConfig(
            13, 15, **sizes, dropout=0.0, norm_first=True, share_embeddings=False
        )
        model = Transformer(config).double()
        for part in model.modules():
            part.register_forward_pre_hook(_note_mode)
        with torch.no_grad():  # so that the norms of the gradients differ, above 1
            model.projection.weight *= 12
    model.eval()
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for number in range(steps):
        pairs = []
        for length in (2, 3 + number % 3, 5):
            rows = torch.randint(4, 13, (2, length), generator=generator).tolist()
            pairs.append((rows[0], rows[1]))
        pairs[0][1][0] = UNK
        batches.append(make_batch(pairs))
    return model, batches, warmup_steps


def _note_mode(part: nn.Module, _inputs: tuple) -> None:
    """Keep in mind that a gradient was taken with this part's dropout switched off."""
    if torch.is_grad_enabled() and not part.training:
        part.was_off = True


def _from_step_1(answer: Callable) -> Callable:
    """The answer; a rate that does not exist, that of step 0, ends the check."""

    @functools.wraps(answer)
    def with_a_rate(*inputs: object) -> object:
        try:
            return answer(*inputs)
        except ZeroDivisionError as error:
            text = "are the steps counted from 0?"
            raise Stop(wrong(f"the rate divides by 0 ({error}): {text}")) from None

    return with_a_rate


def _losses(
    output: object, model: Transformer, batches: list[Batch], warmup_steps: int
) -> Tensor:
    """The losses, and at the end that of the first batch after all steps."""
    if any(hasattr(part, "was_off") for part in model.modules()):
        text = "the steps are taken in evaluation mode, where dropout does not act"
        raise Stop(wrong(f"{text}: `model.train()`"))
    losses, count = plain(output), len(batches)
    if not isinstance(losses, Tensor) or losses.shape != (count,):
        shape = tuple(losses.shape) if isinstance(losses, Tensor) else ""
        found = f"{type(output).__name__} {shape}".strip()
        text = f"return a list of {count} losses, one for each batch, not: {found}"
        raise Stop(wrong(text))
    with torch.no_grad():
        after = token_loss(model, batches[0])[0]
    return torch.cat([losses.detach().double(), after.double()[None]])


def _first_difference(value: Tensor, due: Tensor) -> str:
    """Which loss is the first to differ, and what is due there."""
    place = next(i for i, x in enumerate(value) if not same(x, due[i]))
    found = f"{value[place]:.5g}, and {due[place]:.5g} is due"
    if place == len(due) - 1:
        return f"all losses are right, but after the last step the loss is {found}"
    before = ""
    if place:
        right = "loss is" if place == 1 else f"{place} losses are"
        before = f"the first {right} right; "
    return f"{before}loss {place + 1} is {found}"


training = Exercise(
    f"""\
def my_training(model, batches, warmup_steps):
    d_model = model.config.d_model
    optimizer = {ADAM}
    losses = []
    model.train()
    for step, batch in enumerate(batches, start=1):
        rate = {RATE}
{SET}        logits = model(batch.source, batch.decoder_input).flatten(0, 1)
        labels = batch.labels.flatten()
        loss = {LOSS}
{ZERO}{BACK}{CLIP}{STEP}        losses.append(loss.item())
    return losses
""",
    Part(
        "my_training",
        STEP_MISTAKES,
        lambda seed: [
            _run(seed, 8, 5, 3),
            _run(seed + 1, 12, _drawn(seed, 6, 3), _drawn(seed, 4)),
        ],
        ["five steps: every loss agrees with the course's, and the model has learnt"],
        others="another model, more steps and another warm-up agree, too",
        in_place=True,
        at_once=1,
        use=_from_step_1,
        measure=_losses,
        describe=_first_difference,
    ),
    uses={"PAD": PAD, "EOS": EOS, "UNK": UNK, "copy": copy},
)

# ------------------------------------------------------------ 09.3 three trainings

VOCAB, STEPS, EVERY = 20, 280, 20
FAULTS = {"A": "sees the future", "B": "rate too high", "C": "memory is zeros"}
# What each fault shows in these trainings: tests/test_lesson_09.py makes its run.
SIGNS = {
    "too few sentences": "with 40 sentences, the training loss ends at 0.00 "
    "and the validation loss above 5",
    "sees the future": "if it saw the future, both curves would be near 0 after 100 "
    "steps, and yet it would write nothing without a fault",
    "memory is zeros": "if the memory were zeros, another's source would give the same "
    "loss, and both curves would stop at 2.6",
    "rate too high": "at ten times the rate, both curves stay above 1.9, and another's "
    "source still costs more than its own",
    "padding in the loss": "with padding in its loss, the training curve runs clearly "
    "below the other for 60 steps; but it ends as low, and writes nearly all right",
    "labels not shifted": "with labels not shifted, the training loss is 0 after 40 "
    "steps, and the validation loss climbs above 9",
}
diagnosis = Values(
    """\
faults = {"A": "sees the future", "B": "rate too high", "C": "memory is zeros"}
""",
    {
        name: {other: sign for other, sign in SIGNS.items() if other != fault}
        for name, fault in FAULTS.items()
    },
    dict.fromkeys(FAULTS, "compare the curves and the table with the healthy training"),
    choices=tuple(SIGNS),
)


@dataclass(frozen=True)
class Training:
    """What a training of exercise 09.3 showed; losses in nats per target token."""

    steps: list[int]
    train_loss: list[float]  # of the batch of that step, as the training computed it
    validation_loss: list[float]
    exchanged_loss: float  # of validation, each source exchanged for another
    exact: float  # share of new sequences reversed without a fault, token by token


class _SeesTheFuture(Transformer):
    """A Transformer whose decoder mask hides padding only."""

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        x = self.positions(self.target_embedding(target))
        return self.decoder(x, memory, padding_mask(target), padding_mask(source))


class _NoMemory(Transformer):
    """A Transformer whose memory arrives as zeros."""

    def encode(self, source: Tensor) -> Tensor:
        return 0 * super().encode(source)


MODELS = {"sees the future": _SeesTheFuture, "memory is zeros": _NoMemory}


def trainings() -> dict[str, Training]:
    """The trainings of exercise 09.3, and a healthy one, each really run."""
    names = {"healthy": "healthy", **FAULTS}
    return {name: run_with(fault) for name, fault in names.items()}


def run_with(fault: str, seed: int = 0) -> Training:
    """Train a small model to write sequences backwards, with a fault or "healthy"."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _trained(fault, torch.Generator().manual_seed(seed))


def _reversals(count: int, generator: torch.Generator) -> list[IdPair]:
    """Random sequences of three to eight letters, each with its reverse."""
    pairs = []
    for _ in range(count):
        length = int(torch.randint(3, 9, (), generator=generator))
        row = torch.randint(4, VOCAB, (length,), generator=generator).tolist()
        pairs.append((row, row[::-1]))
    return pairs


def _trained(fault: str, generator: torch.Generator) -> Training:
    sizes = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 1, "dropout": 0.0}
    config = TransformerConfig(
        VOCAB, VOCAB, **sizes, norm_first=True, share_embeddings=False
    )
    device = best_device()
    model = MODELS.get(fault, Transformer)(config).to(device)
    validation = _reversals(200, generator)
    few = fault == "too few sentences"
    pairs = _reversals(40 if few else 48 * STEPS, generator)
    peak = 1e-1 if fault == "rate too high" else 1e-2
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), fused=True)
    steps, train_loss, validation_loss = [], [], []
    for step in range(1, STEPS + 1):
        start = 48 * (step - 1) % len(pairs)
        batch = make_batch(pairs[start : start + 48]).to(device)
        for group in optimizer.param_groups:
            group["lr"] = cosine_rate(step / STEPS, peak=peak, warmup=0.1)
        loss = _loss(model, batch, fault)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 1 or step % EVERY == 0:
            steps.append(step)
            train_loss.append(loss.item())
            validation_loss.append(evaluate_loss(model, validation))
    sources, targets = zip(*validation, strict=True)
    exchanged = list(zip(sources[1:] + sources[:1], targets, strict=True))
    written = translate_ids(model, sources, max_length=12)
    results = evaluate_loss(model, exchanged), exact_match(written, list(targets))
    return Training(steps, train_loss, validation_loss, *results)


def _loss(model: Transformer, batch: Batch, fault: str) -> Tensor:
    """The loss of a step, with the fault in it, if it has its place there."""
    if fault not in ("padding in the loss", "labels not shifted"):
        return token_loss(model, batch)[0]
    logits = model(batch.source, batch.decoder_input).flatten(0, 1)
    if fault == "labels not shifted":
        read = batch.decoder_input.flatten()
        return F.cross_entropy(logits, read, ignore_index=PAD)
    return F.cross_entropy(logits, batch.labels.flatten())
