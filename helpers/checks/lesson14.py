"""Checks of lesson 14's exercises: more than one device."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from torch import Tensor

from helpers.checks.core import Finding, Stop, attempt, check, right, wrong

# --- Exercise 14.1: sharing a batch ---------------------------------------------------

# (sentences, processes), and what is seen when all is well.
SHARINGS = (
    (8, 2, "8 sentences, 2 processes: each sentence is in one share"),
    (7, 2, "7 sentences, 2 processes: none is lost, none is doubled"),
    (10, 4, "10 sentences, 4 processes: no share is larger by more than one"),
    (2, 3, "2 sentences, 3 processes: one share is empty, and that is no error"),
)


@check
def shares(function: Callable) -> Iterator[Finding]:
    """Exercise 14.1: `function(count, rank, processes)` lists a process's sentences."""
    found: list[list[int]] = []
    for count, processes, text in SHARINGS:
        answered, found = bool(found), []
        try:
            for rank in range(processes):
                found.append(_numbers(attempt(function, count, rank, processes)))
            _demand_partition(found, count)
        except Stop as stop:
            fault = stop.finding.text
            if stop.finding.mark == "○":
                if not (answered or found):
                    raise
                fault = (
                    f"process {len(found)} gets None: return a list in every case, "
                    "an empty one where nothing is left"
                )
            case = f"{count} sentences, {processes} processes"
            raise Stop(wrong(f"{case}: {fault}")) from None
        yield right(text)


def _numbers(output) -> list[int]:
    """The learner's answer as a list of whole numbers."""
    if isinstance(output, Tensor):
        output = output.tolist()
    try:
        numbers = list(output)
        if all(
            number == int(number) and not isinstance(number, bool) for number in numbers
        ):
            return [int(number) for number in numbers]
    except (TypeError, ValueError):
        pass
    raise Stop(wrong(f"return a list of the sentences' numbers, not {output!r}"))


def _demand_partition(found: list[list[int]], count: int) -> None:
    """Nothing if every sentence is in one share and the sizes are fair; else Stop."""
    owners = defaultdict(list)
    for rank, numbers in enumerate(found):
        for number in numbers:
            if not 0 <= number < count:
                raise Stop(
                    wrong(
                        f"process {rank} gets sentence {number}, but they are counted "
                        f"from 0 to {count - 1}"
                    )
                )
            if rank in owners[number]:
                raise Stop(wrong(f"process {rank} gets sentence {number} twice"))
            owners[number].append(rank)
    if not owners:
        raise Stop(wrong("all shares are empty"))
    if all(numbers == found[0] for numbers in found[1:]):
        raise Stop(
            wrong(
                f"all processes get {found[0]}: together they do the same work several "
                "times. Let the rank decide"
            )
        )
    for number, ranks in owners.items():
        if len(ranks) > 1:
            who = " and ".join(str(rank) for rank in ranks)
            raise Stop(
                wrong(
                    f"sentence {number} is in the shares of processes {who}, and would "
                    "count twice: do not fill up a share with sentences of another"
                )
            )
    if lost := [number for number in range(count) if number not in owners]:
        raise Stop(
            wrong(
                f"sentence {lost[0]} is in no share: {found}. Is the rest of a "
                "division left over?"
            )
        )
    sizes = [len(numbers) for numbers in found]
    if max(sizes) - min(sizes) > 1:
        listed = ", ".join(map(str, sizes))
        raise Stop(
            wrong(
                f"the shares hold {listed} sentences: all wait for the largest. Give "
                "the rest to one process each"
            )
        )


# --- Exercise 14.2: the weight of a process -------------------------------------------

COUNTS = ((12, 3), (9, 9), (5, 1, 2), (7, 0))
WEIGHINGS = {
    "all weights are 1: this is the mean of the means, the usual mistake": (
        lambda tokens: [1.0] * len(tokens)
    ),
    "these are the shares of the tokens, but DDP then divides by the number of "
    "processes, and the gradient comes out too small: make up for that": (
        lambda tokens: [n / sum(tokens) for n in tokens]
    ),
    "the shares of the tokens are divided by the number of processes, which DDP does "
    "once more: multiply by it": (
        lambda tokens: [n / sum(tokens) / len(tokens) for n in tokens]
    ),
    "it is the wrong way round: the process with more tokens must count more": (
        lambda tokens: [sum(tokens) / len(tokens) / max(n, 1e-9) for n in tokens]
    ),
    "these are the numbers of tokens themselves: the result would be a sum over the "
    "tokens (divided by the processes), not their mean": lambda tokens: [*tokens],
    "the numbers of tokens are multiplied by the processes, but not divided by all "
    "tokens": lambda tokens: [n * len(tokens) for n in tokens],
    "the number of processes stands there as 2, which it is not always: "
    "`len(tokens)`": lambda tokens: [2 * n / sum(tokens) for n in tokens],
    "the largest share has the weight 1; it is the mean of the weights that must be "
    "1": lambda tokens: [n / max(tokens) for n in tokens],
    "the process itself is left out of the sum: divide by the tokens of all, its own "
    "too": lambda tokens: [n / max(sum(tokens) - n, 1e-9) for n in tokens],
}


@check
def weights(function: Callable) -> Iterator[Finding]:
    """Exercise 14.2: `function(tokens)` gives the weight of each process's loss."""
    for tokens in COUNTS:
        output = _floats(attempt(function, list(tokens)), tokens)
        expected = [n * len(tokens) / sum(tokens) for n in tokens]
        if not _close(output, expected):
            text = f"for the tokens {[*tokens]} your weights are {_listed(output)}: "
            raise Stop(wrong(text + _misweighing(output, tokens)))
    yield right("weighted so, the mean over the processes is the mean over the tokens")
    yield right("equal shares have the weight 1, and an empty one has 0")


def _floats(output, tokens: Sequence[int]) -> list[float]:
    if isinstance(output, Tensor):
        output = output.flatten().tolist()
    try:
        weights = [float(weight) for weight in output]
    except (TypeError, ValueError):
        raise Stop(wrong(f"return a list of weights, not {output!r}")) from None
    if len(weights) != len(tokens):
        raise Stop(
            wrong(
                f"for the tokens {[*tokens]} the list has the length {len(weights)}, "
                f"but {len(tokens)} processes need a weight each"
            )
        )
    return weights


def _misweighing(output: list[float], tokens: Sequence[int]) -> str:
    for name, way in WEIGHINGS.items():
        if _close(output, way(tokens)):
            return name
    mean = sum(output) / len(output)
    if abs(mean - 1) > 1e-6:
        return f"their mean is {mean:.3g}, and has to be 1 for a mean over the tokens"
    return "they must stand to each other as the numbers of tokens do"


def _close(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    return all(
        abs(x - y) <= 1e-6 * max(1.0, abs(y)) for x, y in zip(ours, theirs, strict=True)
    )


def _listed(numbers: Sequence[float]) -> str:
    return "[" + ", ".join(f"{number:.3g}" for number in numbers) + "]"


# --- Exercise 14.3: stopping together -------------------------------------------------


class Stuck(Exception):
    """A process waits in all_max for one that will never call it."""


MOST_CALLS = 100  # in one step: whoever makes more is in an endless loop


class Meeting:
    """The largest number among threads that stand for processes; no endless wait."""

    def __init__(self, processes: int):
        self.processes = processes
        self.changed = threading.Condition()
        self.brought: dict[int, dict[int, float]] = defaultdict(dict)
        self.calls = [0] * processes
        self.finished: set[int] = set()
        self.stuck: list[tuple[int, int]] = []  # (who waits, for whom)

    def largest(self, rank: int, number: float) -> float:
        """The largest of all ranks' numbers, once every rank has brought its own.

        Stuck if a rank has ended without, RuntimeError after MOST_CALLS calls.
        """
        with self.changed:
            call = self.calls[rank]
            if call == MOST_CALLS:
                raise RuntimeError(f"all_max called {call} times: once is enough")
            self.calls[rank] += 1
            self.brought[call][rank] = float(number)
            self.changed.notify_all()
            self.changed.wait_for(
                lambda: len(self.brought[call]) == self.processes or self.gone(call)
            )
            if len(self.brought[call]) == self.processes:
                return max(self.brought[call].values())
            self.stuck.append((rank, self.gone(call)[0]))
            raise Stuck

    def gone(self, call: int) -> list[int]:
        """The ranks that have ended without this call."""
        return [rank for rank in sorted(self.finished) if self.calls[rank] <= call]

    def finish(self, rank: int) -> None:
        """Tell that this rank will make no more calls."""
        with self.changed:
            self.finished.add(rank)
            self.changed.notify_all()


def together(function: Callable, clocks: Sequence[float], limit: float) -> list:
    """What function(seconds, limit, all_max) returns in every process; or Stop.

    None of some processes is an answer, and None of all says that there is none yet.
    """
    meeting = Meeting(len(clocks))
    outcomes: list = [None] * len(clocks)

    def process(rank: int, seconds: float) -> None:
        try:
            outcomes[rank] = attempt(
                function, seconds, limit, lambda number: meeting.largest(rank, number)
            )
        except Stop as stop:
            outcomes[rank] = stop
        finally:
            meeting.finish(rank)

    threads = [
        threading.Thread(target=process, args=pair, daemon=True)
        for pair in enumerate(clocks)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    if any(thread.is_alive() for thread in threads):
        raise Stop(wrong("your code does not end: is there a loop in it?"))
    # A process that stopped with an error of its own makes others stuck, not the
    # other way round.
    waiting = {rank for rank, _ in meeting.stuck}
    empty = [isinstance(x, Stop) and x.finding.mark == "○" for x in outcomes]
    for rank, outcome in enumerate(outcomes):
        own_error = isinstance(outcome, Stop) and rank not in waiting
        if own_error and (all(empty) or not empty[rank]):
            raise outcome
    if meeting.stuck:
        waits, never = meeting.stuck[0]
        raise Stop(
            wrong(
                f"with the clocks at {_clocks(clocks)}, process {waits} waits in "
                f"all_max for process {never}, which never calls it, and so for ever: "
                "every process must call it, before any `if`, `and` or `or` decides"
            )
        )
    return [None if empty[rank] else x for rank, x in enumerate(outcomes)]


def _clocks(clocks: Sequence[float]) -> str:
    return " and ".join(f"{seconds:g} s" for seconds in clocks)


# (clocks, limit), whether to stop, and what is seen when all is well.
CLOCKS = (
    ((58.0, 61.0), 60.0, True, "as soon as one clock has reached the limit, all stop"),
    ((63.0, 57.0), 60.0, True, "it does not matter which process it is"),
    ((12.0, 20.0), 60.0, False, "before that, all go on"),
    ((61.0, 64.0), 90.0, False, "with a later limit too"),
)


@check
def stop_together(function: Callable) -> Iterator[Finding]:
    """Exercise 14.3: `function(seconds, limit, all_max)` says whether to stop."""
    answers: list = []
    for clocks, limit, expected, text in CLOCKS:
        at = f"with the clocks at {_clocks(clocks)} and a limit of {limit:g} s"
        try:
            answers = together(function, clocks, limit)
        except Stop as stop:
            if stop.finding.mark != "○" or not answers:
                raise
            answers = [None]
        for answer in answers:
            if not _is_answer(answer):
                raise Stop(wrong(f"{at}: return True or False, not {answer!r}"))
        answers = [bool(answer) for answer in answers]
        if len(set(answers)) > 1:
            stops, goes = answers.index(True), answers.index(False)
            raise Stop(
                wrong(
                    f"{at}, process {stops} stops and process {goes} goes on, to wait "
                    "for ever for the other's gradient: decide by what all_max gives, "
                    "not by the process's own clock"
                )
            )
        if answers[0] != expected:
            raise Stop(
                wrong(
                    f"{at}, all {'stop' if answers[0] else 'go on'}: they agree, but "
                    "on the wrong thing. Compare the largest of the clocks with the "
                    "limit"
                )
            )
        yield right(text)


def _is_answer(answer) -> bool:
    """Whether it is a truth value: Python's, or of a tensor with one element."""
    if isinstance(answer, Tensor):
        return answer.numel() == 1
    return isinstance(answer, bool | np.bool_)
