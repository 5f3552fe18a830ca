"""Is it a sound Transformer? Property checks for any encoder–decoder (lesson 15).

    from helpers.debugger import properties

    subject = properties.Subject(my_model, source_vocab=230, target_vocab=347)
    properties.examine(subject)

`my_model(source, target)` takes ids (batch, length) and gives logits (batch,
target_length, target_vocab), at each position those of the next token. Every check
runs the model on random sentences and returns a `Verdict`: the property holds, it does
not and where, or it cannot be judged. None of them needs to know how the model is made,
and all leave its weights, mode and random state as they found them.

What no property sees, a sound model of the same weights may show: `first_difference`
compares the two, module by module.
"""

import copy
import functools
import math
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch
from matplotlib import pyplot as plt
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import BOS, PAD, SPECIAL_TOKENS
from helpers.checks.findings import print_findings
from helpers.plots import heatmap

# Changes of the logits are measured in their own standard deviation. Rounding moves
# them by about a millionth of it; what a model means to say moves them by far more.
TOLERANCE = 1e-4

Maps = Mapping[str, Sequence[Tensor]]


@dataclass(frozen=True)
class Subject:
    """A model under examination, and what of its inside may be looked at.

    model(source, target) -> logits is a Module or any other callable; then `module`
    says where its parameters are, if that is to be judged. `steps` is the same function
    computed one target token at a time, as decoding does it. `attention` gives the maps
    of a batch as {"encoder": …, "decoder": …, "cross": …}, each a list with a tensor
    (batch, heads, query_length, key_length) a layer. `longest` is a length that the
    model ought to take. A trained model is not asked for its initial loss, nor to learn
    one batch by heart. `left_padding` says that the model claims to bear padding in
    front of the words, which few do: see `padding_invariant`. ValueError for a
    vocabulary of fewer than 24 tokens.
    """

    model: Callable[[Tensor, Tensor], Tensor]
    source_vocab: int
    target_vocab: int
    module: nn.Module | None = None
    steps: Callable[[Tensor, Tensor], Tensor] | None = None
    attention: Callable[[Tensor, Tensor], Maps] | None = None
    longest: int = 40
    trained: bool = False
    left_padding: bool = False
    seed: int = 0

    def __post_init__(self):
        for name in ("source_vocab", "target_vocab"):
            if getattr(self, name) < 24:
                raise ValueError(
                    f"{name} must be at least 24, for sentences of different words: "
                    f"{getattr(self, name)}"
                )
        if self.module is None and isinstance(self.model, nn.Module):
            object.__setattr__(self, "module", self.model)

    @property
    def device(self) -> torch.device:
        """Where the model's parameters are; the CPU if it has none."""
        parameters = self.module.parameters() if self.module is not None else ()
        return next((p.device for p in parameters), torch.device("cpu"))

    def sentences(
        self, source_length: int = 9, target_length: int = 8, *, rows: int = 4
    ) -> tuple[Tensor, Tensor]:
        """Random ids (rows, length), targets after BOS; no padding."""
        generator = torch.Generator().manual_seed(self.seed)

        def draw(length: int, vocab: int) -> Tensor:
            ordinary = vocab - len(SPECIAL_TOKENS)
            # No word comes twice within `ordinary` words, so that order can matter.
            words = [
                torch.randperm(ordinary, generator=generator)
                for _ in range(rows * math.ceil(length / ordinary))
            ]
            return torch.cat(words).view(rows, -1)[:, :length] + len(SPECIAL_TOKENS)

        source = draw(source_length, self.source_vocab)
        target = draw(target_length, self.target_vocab)
        target[:, 0] = BOS
        return source.to(self.device), target.to(self.device)

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        """The model's output, detached, in eval mode."""
        with _mode(self.module, training=False), torch.no_grad():
            return self.call(self.model, source, target)

    def call(self, function: Callable, source: Tensor, target: Tensor) -> Tensor:
        """function(source, target), checked to be logits; raises _Fails otherwise."""
        try:
            logits = function(source, target)
        except Exception as error:
            text = traceback.format_exception_only(error)[-1].strip().splitlines()[0]
            sizes = f"source {tuple(source.shape)}, target {tuple(target.shape)}"
            raise _Fails(f"the model stops on {sizes} with {text}") from error
        expected = (*target.shape, self.target_vocab)
        if not isinstance(logits, Tensor) or tuple(logits.shape) != expected:
            kind = getattr(logits, "shape", type(logits).__name__)
            what = tuple(kind) if isinstance(kind, torch.Size) else kind
            raise _Fails(f"the model gives {what} where logits {expected} are expected")
        return logits


@dataclass(frozen=True)
class Verdict:
    """Whether a property holds, in a sentence; None where it cannot be judged."""

    name: str
    holds: bool | None
    sentence: str
    draw: Callable[[], None] | None = field(default=None, repr=False)

    @property
    def mark(self) -> str:
        """✓, ✗ or ○, as the exercises' checks print it."""
        return {True: "✓", False: "✗", None: "○"}[self.holds]

    @property
    def text(self) -> str:
        """The line that is printed: the property's name and the sentence."""
        return f"{self.name}: {self.sentence}"


class _Fails(Exception):
    """The property does not hold; the text says where."""

    def __init__(self, text: str, draw: Callable[[], None] | None = None):
        super().__init__(text)
        self.draw = draw


class _Unknown(Exception):
    """The property cannot be judged; the text says why."""


CHECKS: dict[str, Callable[[Subject], Verdict]] = {}


def _property(check: Callable[[Subject], str]) -> Callable[[Subject], Verdict]:
    """Turn a function that returns a sentence, or raises, into a check; list it."""
    name = check.__name__.replace("_", " ")

    @functools.wraps(check)
    def judge(subject: Subject) -> Verdict:
        try:
            with torch.random.fork_rng():
                torch.manual_seed(subject.seed)
                return Verdict(name, True, check(subject))
        except _Fails as failure:
            return Verdict(name, False, str(failure), failure.draw)
        except _Unknown as reason:
            return Verdict(name, None, str(reason))

    CHECKS[name] = judge
    return judge


def examine(subject: Subject, *, draw: bool = True) -> list[Verdict]:
    """Run all checks, print a line for each, draw what failed, return the verdicts."""
    verdicts = [check(subject) for check in CHECKS.values()]
    for verdict in verdicts:
        print_findings([verdict if draw else replace(verdict, draw=None)])
    return verdicts


def failing(subject: Subject) -> tuple[str, ...]:
    """The names of the checks that the model fails; nothing is printed."""
    verdicts = [check(subject) for check in CHECKS.values()]
    return tuple(verdict.name for verdict in verdicts if verdict.holds is False)


# --- What the model computes ----------------------------------------------------------


@_property
def same_twice(subject: Subject) -> str:
    """In eval mode the same input gives the same output."""
    batch = subject.sentences()
    first, second = subject.logits(*batch), subject.logits(*batch)
    if largest := _change(first, second).max().item():
        raise _Fails(
            f"in eval mode two runs on one batch differ by {_spread(largest)}: "
            "something is drawn at random, or remembered"
        )
    return "in eval mode two runs on one batch are equal"


@_property
def causal(subject: Subject) -> str:
    """No logit depends on a target token after its position."""
    _steady(subject)
    source, target = subject.sentences()
    before, length = subject.logits(source, target), target.size(1)
    changes = torch.zeros(length, length)  # output position × changed position
    for position in range(1, length):
        other = _replace(target, position, subject.target_vocab)
        changes[:, position] = _change(before, subject.logits(source, other))[0].cpu()
    leaks = changes.triu(1)  # outputs before the changed position
    if leaks.max() > TOLERANCE:
        changed, output = divmod(int(leaks.T.argmax()), length)
        raise _Fails(
            f"a new token at position {changed} moves the logits of position "
            f"{output} by {_spread(leaks.max().item())}: it sees the future",
            functools.partial(
                _draw_changes,
                changes,
                [str(i) for i in range(length)],
                title="Above the diagonal, outputs see the future",
                xlabel="changed target position",
                ylabel="position of the logits",
            ),
        )
    return "no position's logits move when a later target token changes"


@_property
def padding_invariant(subject: Subject) -> str:
    """Padding on either side leaves the logits of the real tokens alone.

    "Either side" is the source and the target; PADs stand *behind* the words, where
    batches are padded. In front of them they give every word a later position, and a
    model that counts positions from the start of the row, as the paper's sinusoids do,
    must then answer otherwise, however good its masks are. So padding on the left is no
    property of a sound Transformer. A model that claims it all the same, because it
    counts its positions from the first word, is held to it: `left_padding=True`.
    """
    _steady(subject)
    source, target = subject.sentences()
    before, length = subject.logits(source, target), target.size(1)
    moved = {}
    for place in ("behind", "before") if subject.left_padding else ("behind",):
        pads, first = ((0, 3), 0) if place == "behind" else ((3, 0), 3)
        after = subject.logits(F.pad(source, pads, value=PAD), target)
        moved[f"{place} the source"] = _change(before, after).cpu()
        after = subject.logits(source, F.pad(target, pads, value=PAD))
        real = after[:, first : first + length]
        moved[f"{place} the target"] = _change(before, real).cpu()
    for place, changes in moved.items():
        if changes.max() > TOLERANCE:
            rows = [f"{p}, sentence {row}" for p in moved for row in (1, 2, 3, 4)]
            raise _Fails(
                f"three PADs {place} move the logits of real tokens by up to "
                f"{_spread(changes.max().item())}",
                functools.partial(
                    _draw_changes,
                    torch.cat([*moved.values()]),
                    rows,
                    title="Padding moves the logits of real tokens",
                    ylabel="where the PADs are",
                ),
            )
    places = "before or behind" if subject.left_padding else "behind"
    return f"PADs {places} source or target do not move the logits of real tokens"


@_property
def batch_independent(subject: Subject) -> str:
    """A sentence's logits do not depend on the others in its batch.

    The sentences have different lengths: one whose mask is mixed up with another's is
    found only so.
    """
    _steady(subject)
    source, target = subject.sentences()
    for row in range(4):
        source[row, 9 - row :] = target[row, 5 + row :] = PAD
    alone = [subject.logits(source[i : i + 1], target[i : i + 1]) for i in range(4)]
    changes = _change(torch.cat(alone), subject.logits(source, target))
    real = target != PAD
    if changes[real].max() > TOLERANCE:
        lengths = [(rows != PAD).sum(1).tolist() for rows in (source, target)]
        raise _Fails(
            "the logits of a sentence alone and among others differ by "
            f"{_spread(changes[real].max().item())}: sentences leak into each other",
            functools.partial(
                _draw_changes,
                changes.masked_fill(~real, math.nan).cpu(),
                [f"source {s}, target {t}" for s, t in zip(*lengths, strict=True)],
                title="Its neighbours move a sentence's logits",
                ylabel="tokens of the sentence",
            ),
        )
    return "a sentence has the same logits alone and among others"


@_property
def length_generic(subject: Subject) -> str:
    """The model takes sentences of any length, and of different ones on its sides."""
    longest = subject.longest
    for lengths in ((1, 1), (1, 5), (6, 2), (longest, 3), (2, longest)):
        logits = subject.logits(*subject.sentences(*lengths, rows=2))
        if not logits.isfinite().all():
            raise _Fails(f"for lengths {lengths} (source, target) not all are finite")
    return f"it takes every pair of lengths that was tried, from 1 to {longest}"


@_property
def order_aware(subject: Subject) -> str:
    """The order of the words matters, on both sides."""
    _steady(subject)
    source, target = subject.sentences()
    before = subject.logits(source, target)
    turned = target.clone()
    turned[:, 1:-1] = target[:, 1:-1].flip(1)
    for side, other in (
        ("source", (source.flip(1), target)),
        ("target", (source, turned)),
    ):
        # Only the last position reads the same last word after the same set of words.
        if _change(before, subject.logits(*other))[:, -1].max() < TOLERANCE:
            raise _Fails(f"the {side} read backwards gives the same logits")
    return "reading the source or the target backwards changes the logits"


@_property
def steps_equal_parallel(subject: Subject) -> str:
    """Decoding token by token gives the logits of all tokens at once."""
    if subject.steps is None:
        raise _Unknown("no `steps` given")
    _steady(subject)
    source, target = subject.sentences()
    with _mode(subject.module, training=False), torch.no_grad():
        steps = subject.call(subject.steps, source, target)
    changes = _change(subject.logits(source, target), steps)
    wrong = (changes > TOLERANCE).any(0).nonzero()
    if len(wrong):
        raise _Fails(
            "step by step, the logits differ by up to "
            f"{_spread(changes.max().item())}, first at position {int(wrong[0])}"
        )
    return "step by step and all at once the logits are the same"


@_property
def attention_is_sound(subject: Subject) -> str:
    """Attention's rows sum to one, and a word gives no weight to hidden keys.

    What padding looks at is nobody's business: nothing reads its output.
    """
    if subject.attention is None:
        raise _Unknown("no `attention` given")
    source, target = subject.sentences()
    source[1:, -2:] = target[2:, -3:] = PAD
    with _mode(subject.module, training=False), torch.no_grad():
        maps = subject.attention(source, target)
    length = target.size(1)
    future = torch.ones(length, length, dtype=torch.bool, device=target.device).triu(1)
    padding = [x == PAD for x in (source, target)]
    source_keys, target_keys = (pads[:, None, None] for pads in padding)
    source_words, target_words = (~pads[:, None, :, None] for pads in padding)
    hidden = {
        "encoder": source_keys & source_words,
        "decoder": (target_keys | future) & target_words,
        "cross": source_keys & target_words,
    }
    if not any(maps.values()):
        raise _Unknown("`attention` gives no map")
    for kind, layers in maps.items():
        for layer, weights in enumerate(layers):
            where = f"{kind}, layer {layer}"
            _check_shape(weights, kind, source, target, where)
            _check_rows(weights, where)
            _check_hidden(weights, hidden[kind].expand_as(weights), where)
    return "every row of weights sums to one and leaves out what is hidden"


def _check_shape(
    weights: Tensor, kind: str, source: Tensor, target: Tensor, where: str
) -> None:
    lengths = {"source": source.size(1), "target": target.size(1)}
    query, key = {
        "encoder": ("source", "source"),
        "decoder": ("target", "target"),
        "cross": ("target", "source"),
    }[kind]
    due = (len(source), lengths[query], lengths[key])
    if weights.dim() != 4 or (len(weights), *weights.shape[2:]) != due:
        raise _Fails(
            f"{where}: the weights have the shape {tuple(weights.shape)}, not "
            f"({due[0]}, heads, {due[1]}, {due[2]})"
        )


def _check_rows(weights: Tensor, where: str) -> None:
    off = (weights.float().sum(-1) - 1).abs()
    if not off.max() <= 1e-3:  # NaN fails too
        raise _Fails(f"{where}: a row of weights is off its sum of 1 by {_about(off)}")


def _check_hidden(weights: Tensor, hidden: Tensor, where: str) -> None:
    leak = weights * hidden
    if leak.max() > 1e-6:
        row, head, query, key = (int(i[0]) for i in (leak == leak.max()).nonzero().T)
        shown = weights[row, head]
        raise _Fails(
            f"{where}, head {head}: query {query} gives {_about(leak)} to key {key}, "
            "which is hidden from it",
            functools.partial(_draw_weights, shown, where),
        )


# --- How it learns --------------------------------------------------------------------


@_property
def initial_loss(subject: Subject) -> str:
    """Before training every token is about equally likely: the loss is near ln V."""
    if subject.trained:
        raise _Unknown("the model is trained")
    source, target = subject.sentences(rows=16)
    loss = _loss(subject.logits(source, target), target).item()
    expected = math.log(subject.target_vocab)
    numbers = f"≈ {loss:.2f} nats where ln V = {expected:.2f}"
    if not abs(loss - expected) < 0.25 * expected:
        raise _Fails(f"the first loss is {numbers}: the model starts with opinions")
    return f"the first loss is {numbers}"


@_property
def all_parameters_learn(subject: Subject) -> str:
    """Every parameter receives a gradient."""
    module = _module(subject)
    source, target = subject.sentences()
    with _mode(module, training=True), _own_gradients(module), torch.enable_grad():
        _loss(subject.call(subject.model, source, target), target).backward()
        idle = [
            name
            for name, parameter in module.named_parameters()
            if parameter.requires_grad
            and (parameter.grad is None or not parameter.grad.any())
        ]
    if idle:
        more = f" and {len(idle) - 3} more" if len(idle) > 3 else ""
        raise _Fails(f"no gradient reaches {', '.join(idle[:3])}{more}")
    return "a gradient reaches every parameter"


@_property
def overfits_one_batch(subject: Subject) -> str:
    """A few sentences are learnt by heart; whatever cannot do that learns nothing.

    Four sentences that differ from the first word on: whoever ignores the source cannot
    know it, and stays above ln 4 / 8 = 0.17 nats a token.
    """
    if subject.trained:
        raise _Unknown("the model is trained")
    module = _module(subject)
    source, target = subject.sentences()
    best = math.inf
    for rate in (3e-3, 1e-3, 1e-4):  # small models like the first, large ones the last
        with _restored(module):
            for step in _training_steps(subject, source, target, rate):
                loss = _loss(subject.logits(source, target), target).item()
                best = min(best, loss)
                if loss < 0.1:
                    return f"four sentences are learnt by heart in ≈ {step} steps"
    raise _Fails(f"four sentences cannot be learnt by heart: ≈ {best:.2f} nats remain")


def _training_steps(
    subject: Subject, source: Tensor, target: Tensor, rate: float, steps: int = 200
) -> Iterator[int]:
    """Train with Adam at this rate, after a warm-up; pause every tenth step."""
    fused = subject.device.type in ("cpu", "cuda")  # the same steps in half the time
    optimizer = torch.optim.Adam(subject.module.parameters(), lr=rate, fused=fused)
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, step / 20)
        with _mode(subject.module, training=True), torch.enable_grad():
            loss = _loss(subject.call(subject.model, source, target), target)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(subject.module.parameters(), 1.0)
            optimizer.step()
        if step % 10 == 0:
            yield step


@_property
def state_moves(subject: Subject) -> str:
    """What the model computes with is registered: parameters, buffers, modules.

    Anything else stays behind when the model moves to another device. A plain tensor
    may be the output of an earlier call, or be moved by hand at every use. So we put a
    copy of it on another device, "meta", which holds no numbers: if the model still
    runs, or says that it cannot fetch the numbers from there, all is well.
    """
    module = _module(subject)
    batch = subject.sentences()
    subject.logits(*batch)  # what earlier calls leave behind is there from now on
    for owner_name, owner in module.named_modules():
        for name, value in list(vars(owner).items()):
            path = f"{owner_name}.{name}".lstrip(".")
            if name.startswith("_") and isinstance(value, dict):
                continue  # Module's own tables of what is registered
            if _holds(value, nn.Module) and not isinstance(value, nn.Module):
                raise _Fails(
                    f"{path} is a plain {type(value).__name__} of modules: their "
                    "parameters are neither trained, moved nor saved"
                )
            if isinstance(value, Tensor) and _stays_behind(
                subject, owner, name, value, batch
            ):
                raise _Fails(
                    f"{path} is a plain tensor, no parameter and no buffer: it stays "
                    "behind when the model moves to another device"
                )
    return "all it computes with moves with the model"


def _holds(value: object, kind: type) -> bool:
    """Whether value is a `kind`, or a plain container with one in it."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return isinstance(value, kind)
    return any(_holds(x, kind) for x in value)


def _stays_behind(
    subject: Subject,
    owner: nn.Module,
    name: str,
    value: Tensor,
    batch: tuple[Tensor, Tensor],
) -> bool:
    """Whether the model fails once the plain tensor owner.name is elsewhere."""
    setattr(owner, name, value.to("meta"))
    try:
        logits = subject.logits(*batch)
    except _Fails as failure:
        return "out of meta tensor" not in str(failure.__cause__)
    finally:
        setattr(owner, name, value)
    return logits.device.type == "meta"


# --- Numbers at their limits ----------------------------------------------------------


@_property
def finite_in_half_precision(subject: Subject) -> str:
    """With products in 16 bits, whose largest number is 65504, all stays finite."""
    source, target = subject.sentences()
    source[1:, -2:] = PAD
    device = subject.device.type
    with torch.autocast(device, dtype=torch.float16):
        logits = subject.logits(source, target)
    _check_finite(logits, "in half precision")
    return "in half precision every logit is finite"


@_property
def finite_without_source(subject: Subject) -> str:
    """A row of attention with every key hidden, as an empty source makes it, is finite.

    A softmax over nothing is 0/0. Neither the output nor a gradient may become NaN:
    one empty row would spoil the weights for all.
    """
    source, target = subject.sentences()
    source[1] = PAD
    _check_finite(subject.logits(source, target), "with a source of nothing but PAD")
    if subject.module is not None:
        with (
            _mode(subject.module, training=True),
            _own_gradients(subject.module),
            torch.enable_grad(),
        ):
            logits = subject.call(subject.model, source, target)
            _loss(logits[[0, 2, 3]], target[[0, 2, 3]]).backward()
            gradients = [p.grad for p in subject.module.parameters()]
        if not all(g is None or g.isfinite().all() for g in gradients):
            raise _Fails("a source of nothing but PAD makes gradients NaN")
    return "with a source of nothing but PAD all stays finite"


def _check_finite(logits: Tensor, when: str) -> None:
    bad = ~logits.isfinite()
    if bad.any():
        count = int(bad.flatten(1).any(1).sum())
        raise _Fails(f"{when} {count} of {len(bad)} sentences get NaN or infinity")


# --- Beside a reference ---------------------------------------------------------------


def outputs(module: nn.Module, source: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Each submodule's first output, by name, in the order in which they finish."""
    kept, hooks = {}, []
    for name, part in module.named_modules():

        def keep(part: nn.Module, _: object, output: object, name: str = name) -> None:
            kept.setdefault(name, output)  # and return None: no other output

        hooks.append(part.register_forward_hook(keep))
    with torch.no_grad():
        module.eval()(source, target)
    for hook in hooks:
        hook.remove()
    return kept


def first_difference(
    module: nn.Module, reference: nn.Module, source: Tensor, target: Tensor
) -> str:
    """The first submodule whose output is not that of the reference, by name.

    The reference is sound and has the module's weights. "none" if all outputs agree.
    """
    ours, due = outputs(module, source, target), outputs(reference, source, target)
    for name in due:
        if name not in ours:
            return f"{name} is missing"
        if not torch.allclose(ours[name], due[name], atol=1e-4):
            return name
    return "none"


# --- Tools of the checks --------------------------------------------------------------


def _steady(subject: Subject) -> None:
    """Raise _Unknown where outputs cannot be compared, as they change by themselves."""
    batch = subject.sentences()
    if _change(subject.logits(*batch), subject.logits(*batch)).any():
        raise _Unknown("cannot be told: two runs on one batch differ already")


def _change(before: Tensor, after: Tensor) -> Tensor:
    """Largest change at each position (batch, length), in the logits' spread.

    NaN counts as infinite, so that it passes for no equality.
    """
    spread = before.float().std().clamp(min=1e-12)
    change = (after - before).abs().amax(-1).float() / spread
    return change.nan_to_num(nan=math.inf)


def _replace(target: Tensor, position: int, vocab: int) -> Tensor:
    """The target with another ordinary word at `position` of the first sentence."""
    ordinary = vocab - len(SPECIAL_TOKENS)
    other = target.clone()
    word = other[0, position] - len(SPECIAL_TOKENS)
    other[0, position] = (word + 1) % ordinary + len(SPECIAL_TOKENS)
    return other


def _loss(logits: Tensor, target: Tensor) -> Tensor:
    """Mean cross-entropy against the target's next token; the last one ends with BOS.

    BOS stands in for an end mark: any fixed id will do.
    """
    labels = target.roll(-1, dims=1)
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def _module(subject: Subject) -> nn.Module:
    if subject.module is None:
        raise _Unknown("no `module` given, so there are no parameters to look at")
    return subject.module


@contextmanager
def _mode(module: nn.Module | None, *, training: bool) -> Iterator[None]:
    """Train or eval mode for a block; each submodule's mode comes back."""
    before = {m: m.training for m in module.modules()} if module is not None else {}
    for m in before:
        m.training = training
    try:
        yield
    finally:
        for m, mode in before.items():
            m.training = mode


@contextmanager
def _own_gradients(module: nn.Module) -> Iterator[None]:
    """Start a block without gradients; the former ones come back."""
    before = [(p, p.grad) for p in module.parameters()]
    for p, _ in before:
        p.grad = None
    try:
        yield
    finally:
        for p, gradient in before:
            p.grad = gradient


@contextmanager
def _restored(module: nn.Module) -> Iterator[None]:
    """The parameters and buffers come back as they were."""
    with _own_gradients(module):
        before = copy.deepcopy(module.state_dict())
        try:
            yield
        finally:
            module.load_state_dict(before)


def _spread(change: float) -> str:
    return f"≈ {change:.2g} of their spread"


def _about(values: Tensor) -> str:
    return f"≈ {values.max().item():.2f}"


def _draw_changes(
    changes: Tensor,
    rows: list[str],
    *,
    title: str,
    xlabel: str = "position of the logits (0 reads <bos>)",
    ylabel: str = "",
) -> None:
    """A heatmap of how far logits move, in their spread.

    changes (rows, positions); NaN, where there is nothing to compare, is grey.
    Infinity has the colour of the largest change that is finite.
    """
    finite = changes[changes.isfinite()]
    highest = max([TOLERANCE, *finite.tolist()])
    figure, ax = plt.subplots(figsize=(6.6, max(2.6, 1.4 + 0.27 * len(rows))))
    columns, label = range(changes.size(1)), "change, in spreads"
    options = {"title": "", "ax": ax, "highest": highest, "label": label}
    heatmap(changes.clamp(max=highest), rows, columns, **options)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    plt.show()


def _draw_weights(weights: Tensor, where: str) -> None:
    """A heatmap of the weights in which hidden keys have a share."""
    heatmap(
        weights, *map(range, weights.shape), title=f"Weight on hidden keys: {where}"
    )
    plt.show()
