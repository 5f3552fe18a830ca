"""The exercises of lesson 10, the toy translator: reference answers and mistakes."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from random import Random
from weakref import WeakKeyDictionary

import torch

from helpers.checks.comparing import plain
from helpers.checks.engine import Exercise, Part, Trial
from helpers.checks.findings import Stop, wrong
from helpers.checks.running import NOTHING, stub
from helpers.corpus import SentencePair, toy_corpus
from helpers.corpus.phenomena import phenomena
from helpers.somebody import somebodys_outputs
from helpers.text import split_words

# ------------------------------------------------------------ 10.1 count the matches

MATCHED, TOTAL = "(ours & theirs).total()", ", ours.total()"
UNCLIPPED = "sum(count for run, count in ours.items() if run in theirs)"
LAST = "len(tokens) - n + 1"
MATCH_MISTAKES = {
    "a run counts more often than the reference has it: clip, that is count it at most "
    "as often as it occurs there": {MATCHED: UNCLIPPED},
    "each match counts as often as the reference has it: it counts at most as often as "
    "the hypothesis has it, too": [
        {MATCHED: "sum(theirs[run] for run in ours)"},
        {MATCHED: "sum(count * theirs[run] for run, count in ours.items())"},
    ],
    "a run that stands in both several times counts once: a set forgets how often": [
        {MATCHED: "len(ours & theirs)"},
        {MATCHED: "len(ours & theirs)", TOTAL: ", len(ours)"},
    ],
    "the total is that of the reference: count the runs of the hypothesis": {
        TOTAL: ", theirs.total()"
    },
    "the total counts words, not runs of n words": {TOTAL: ", len(hypothesis)"},
    "runs are compared place by place: one may match wherever it stands": {
        MATCHED: "sum(hypothesis[i : i + n] == reference[i : i + n] for i in "
        "range(min(len(hypothesis), len(reference)) - n + 1))"
    },
    "the last run is missing: there are len(tokens) - n + 1 of them": {
        LAST: "len(tokens) - n"
    },
    "shorter runs at the end count, too: there are len(tokens) - n + 1 runs": {
        LAST: "len(tokens)"
    },
    "single words are counted whatever n is": {
        "tokens[i : i + n]": "tokens[i : i + 1]",
        LAST: "len(tokens)",
    },
    "the next run begins n words later: it begins one word later": {
        f"range({LAST})": f"range(0, {LAST}, n)"
    },
    "the two counts are swapped: the matches come first, then the total": {
        f"{MATCHED}{TOTAL}": f"ours.total(), {MATCHED}"
    },
}


FIRST = "dort dort dort chat chat noir dort dort chat"  # tells all mistakes apart


def _as_pair(answer: Callable) -> Callable:
    """The answer as a function that gives two counts, an array of two included."""

    def function(hypothesis: list, reference: list, n: int) -> object:
        counts = answer(hypothesis, reference, n)
        _refuse_nothing(answer, [counts])
        return [*counts] if getattr(counts, "shape", None) == (2,) else counts

    return function


def _refuse_nothing(answer: Callable, outputs: list) -> None:
    """Stop where an answer gives None: it is a stub, or lacks its `return`."""
    if any(output is None or output is ... for output in outputs):
        if stub(answer):
            raise NotImplementedError
        raise Stop(wrong(NOTHING))


def _split(*texts: str) -> list[list[str]]:
    return [text.split() for text in texts]


def _texts(seed: int, ours: int, theirs: int, n: int) -> tuple[list, list, int]:
    """Two random texts of few words, so that runs of n come several times."""
    rng = Random(seed)
    words = ["le", "chat", "noir"] if n == 1 else ["le", "chat"]
    return *([rng.choice(words) for _ in range(c)] for c in (ours, theirs)), n


def _cases(*cases: tuple[str, str, int]) -> list[Trial]:
    return [Trial((*_split(a, b), n)) for a, b, n in cases]


matches = Exercise(
    f"""\
def my_matches(hypothesis, reference, n):
    def runs(tokens):
        return Counter(tuple(tokens[i : i + n]) for i in range({LAST}))

    ours, theirs = runs(hypothesis), runs(reference)
    return {MATCHED}{TOTAL}
""",
    Part(
        "my_matches",
        MATCH_MISTAKES,
        lambda seed: [
            (*_split(FIRST, "dort chat dort chat dort dort chat"), 2),
            _texts(seed, 14, 9, 2),
            _texts(seed + 1, 8, 13 + seed % 4, 1),
            _texts(seed + 2, 12, 17, 3),
        ],
        ["runs of two words are counted and clipped"],
        others="so are runs of one and three words, in texts of other lengths",
        doubt="",
        trials=[
            *_cases(
                ("le le le chat", "le chat le le chien", 2),
                ("chat le chat le chat", "le chat noir", 1),
                ("le chat et le chat noir", "le chat voit le chat et le chien", 2),
                ("a b c", "c a b", 1),
                ("oui", "oui oui oui", 1),
                ("un deux trois quatre cinq", "un deux trois quatre cinq", 5),
                ("chat noir le", "noir chat le", 2),
                ("oui", "oui oui oui", 3),
            ),
            Trial(
                (*_split("oui oui", "oui oui oui"), 3),
                ["a sentence shorter than n has no runs: 0 of 0"],
            ),
        ],
        results=("matched", "total"),
        use=_as_pair,
        describe=lambda value, due: (
            f"{_pair(value)} are given in one of the cases, {_pair(due)} are due"
        ),
    ),
    uses={"Counter": Counter},
)


def _pair(value: tuple[torch.Tensor, ...]) -> str:
    return " of ".join(f"{part.item():g}" for part in value)


# ------------------------------------------------------------ 10.2 the control

KIND, PLACE = "(noun < adjective) == noun_first", "min(adjective, noun)"
SHARE = "sum(hits) / len(hits)"
CONTROL_MISTAKES = {
    "`noun_first` is not used: all phrases are counted, or always one kind of them": [
        {KIND: "True"},
        {KIND: "noun < adjective"},
        {KIND: "noun > adjective"},
    ],
    "the kinds are exchanged: with `noun_first`, the noun's place is the smaller one": {
        KIND: "(noun > adjective) == noun_first"
    },
    "it looks at the noun's own place: look at the first of the two places": {
        PLACE: "noun"
    },
    "it looks at the adjective's place: look at the first of the two places": {
        PLACE: "adjective"
    },
    "it looks at the second of the two places, one too late: look at the first": {
        PLACE: "max(adjective, noun)"
    },
    "it looks one place too early": {PLACE: f"{PLACE} - 1"},
    "the share of words that are *no* nouns is given": {"] in nouns": "] not in nouns"},
    "the number of hits is given: divide by the number of phrases": {
        SHARE: "sum(hits)"
    },
    "divide by the number of phrases that were looked at": [
        {SHARE: "sum(hits) / len(said)"},
        {SHARE: "sum(hits) / sum(map(len, phrases))"},
    ],
    "a percentage is given: a share lies between 0 and 1": {SHARE: f"100 * {SHARE}"},
}


def _said(seed: int, sentences: int) -> tuple:
    """Random words at random places: what was said, the phrases, the nouns."""
    rng = Random(seed)
    nouns, others = ["chat", "maison", "arbre"], ["noir", "mais", "chats", "dort", "."]

    def word(share: float) -> str:
        return rng.choice(nouns if rng.random() < share else others)

    said, phrases = [], []
    for i in range(sentences):
        words, found = [word(0.45) for _ in range(rng.randint(8, 14))], []
        for start in (1, 3 + rng.randint(1, 2))[: (1, 2, 0, 2)[i % 4]]:
            noun_first = rng.random() < 0.6
            found.append((start + 1, start) if noun_first else (start, start + 1))
            shares = (0.8, 0.25) if noun_first else (0.35, 0.6)
            words[start : start + 2] = map(word, shares)
        said.append(words)
        phrases.append(found)
    return said, phrases, {*nouns}


def _both_kinds(answer: Callable) -> Callable:
    """The share where the noun comes first, and where the adjective does."""

    def function(said: list, phrases: list, nouns: set) -> list:
        shares = [answer(said, phrases, nouns, kind) for kind in (True, False)]
        _refuse_nothing(answer, shares)
        found = [plain(share) for share in shares]
        if not all(isinstance(x, torch.Tensor) and x.numel() == 1 for x in found):
            kind = type(shares[0]).__name__
            raise Stop(wrong(f"return one number, the share, not a {kind}"))
        return [share.reshape(()) for share in found]

    return function


control = Exercise(
    f"""\
def noun_share(said, phrases, nouns, noun_first):
    hits = []
    for words, pairs in zip(said, phrases, strict=True):
        for adjective, noun in pairs:
            if {KIND}:
                hits.append(words[{PLACE}] in nouns)
    return {SHARE}
""",
    Part(
        "noun_share",
        CONTROL_MISTAKES,
        lambda seed: [
            _said(27, 40),  # tells all mistakes apart
            _said(seed + 1, 30 + seed % 7),
            _said(seed + 2, 60),
        ],
        ["both shares are right: noun first, and adjective first, the control"],
        others="with other sentences, too",
        doubt="",
        use=_both_kinds,
    ),
)

# ------------------------------------------------------------ 10.3 an error analysis

ENOUGH = 0.9
FOUND, ALARMS = 0, 1


@cache
def _fresh() -> tuple[list[SentencePair], list[bool], list[str]]:
    """Sentences that the lesson does not show, whether they go wrong, what is said."""
    pairs = toy_corpus().validation
    outputs = somebodys_outputs(pairs)
    wrong = [a != p.target for a, p in zip(outputs, pairs, strict=True)]
    return pairs, wrong, outputs


MEASURED: WeakKeyDictionary = WeakKeyDictionary()


def _measuring(rule: Callable) -> Callable:
    """A rule as a function: how much of what goes wrong it finds, how often it errs."""

    def function(demand: int) -> list[float]:
        if rule not in MEASURED:
            MEASURED[rule] = _measured(rule)
        return MEASURED[rule][demand]

    return function


def _measured(rule: Callable) -> list[list[float]]:
    """[share, how many, of how many, a sentence that goes against the rule], twice."""
    pairs, wrong, _ = _fresh()
    given = [rule(pair) for pair in pairs]
    if all(answer is None or answer is ... for answer in given):
        raise NotImplementedError
    said = [bool(answer) for answer in given]
    both = [a and b for a, b in zip(said, wrong, strict=True)]
    found = []
    for whole, other in ((wrong, said), (said, wrong)):
        against = [i for i, x in enumerate(whole) if x and not other[i]]
        share = sum(both) / max(sum(whole), 1)
        found.append([share, sum(both), sum(whole), against[0] if against else -1])
    return found


def _facts(value: torch.Tensor, due: torch.Tensor) -> dict:
    share, hits, of, row = value.tolist()
    pairs, _, outputs = _fresh()
    shown = f"“{pairs[int(row)].source}”, said “{outputs[int(row)]}”"
    return {"share": share, "hits": hits, "of": of, "shown": shown}


def _trial(demand: int, praise: str, otherwise: str) -> Trial:
    return Trial(
        (demand,),
        [praise],
        otherwise=otherwise,
        accepts=lambda value, due: bool(value[0] >= ENOUGH),
        facts=_facts,
    )


analysis = Exercise(
    """\
def will_fail(pair):
    shown = phenomena(pair)
    english, french = split_words(pair.source), split_words(pair.target)
    owner = ("his" in english and "sa" in french) or (
        "her" in english and "son" in french
    )
    return owner or {"negation", "pronoun"} <= shown
""",
    Part(
        "will_fail",
        {},
        trials=[
            _trial(
                FOUND,
                "{hits:.0f} of the {of:.0f} fresh sentences that go wrong are found",
                "of {of:.0f} fresh sentences that go wrong, {hits:.0f} are found, and "
                "at least 90 % are due; not found, for example: {shown}",
            ),
            _trial(
                ALARMS,
                "{hits:.0f} of the {of:.0f} that it warns of do go wrong",
                "it warns of {of:.0f} fresh sentences, and {hits:.0f} of them go "
                "wrong: at least 90 % are due; a false alarm, for example: {shown}",
            ),
        ],
        use=_measuring,
    ),
    uses={"phenomena": phenomena, "split_words": split_words},
)
