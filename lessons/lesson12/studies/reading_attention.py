"""What do maps and patches find in five equally good toy translators?

For each seed: how well its best head of cross-attention finds the true alignment (the
head is chosen on validation sentences), and how well the mean map of all its heads does
(`mean_error_rate`). How many statements begin with "est-ce" when the vector of their
full stop is that of a question mark (`asked`), and the largest mean weight of a head on
that stop, at the first word (`look_at_stop`).

For pairs of sentences whose nouns differ in gender: the mean lead of the donor's
article over the sentence's own, in scores. The noun, or "the", is hidden from the
decoder (`noun_hidden`, `the_hidden`). In the memory, the vector of the other of the two
is then the donor's (`…_patched`, and `…_ahead`: the share of leads above 0) or, as a
control, that of another sentence with the same article (`…_control`).

Then, for facts that differ in pairs of sentences: the share of French articles that
become the donor's when its vector is put into the memory at the English article, at the
noun, or elsewhere (the largest share).
"""

from collections.abc import Iterator

from torch import Tensor

from helpers.attention import record_attention
from helpers.batching import Batch, make_batch
from helpers.corpus import SentencePair, toy_corpus
from helpers.decoding import inference
from helpers.translator.model import Translator
from helpers.translator.recipes import RECIPES, build, load_text, trained_toy, with_seed
from lessons.lesson12 import reading
from lessons.lesson12.minimal_pairs import (
    ARTICLE,
    FACTS,
    MARK,
    NOUN,
    Pairs,
    noun_pairs,
    questions_and_statements,
)

SEEDS = range(5)
MEMORY = RECIPES["toy"].model["n_layers"]  # the level after the last layer


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each seed and fact; `tiny` measures an untrained model."""
    for seed in SEEDS[:1] if tiny else SEEDS:
        translator = trained_toy(seed=seed) if not tiny else None
        if translator is None:
            translator = build(with_seed(RECIPES["toy"], seed), load_text("toy"))
        translator.model.eval().requires_grad_(False)
        of_seed = {"seed": seed} | of_heads(translator, few=20 if tiny else None)
        pairs = {fact: noun_pairs(fact, 5 if tiny else 200, 0) for fact in FACTS}
        of_seed |= leads(translator, pairs["gender"])
        for fact in FACTS:
            yield of_seed | {"fact": fact} | of_fact(translator, pairs[fact])


def of_heads(translator: Translator, few: int | None) -> dict:
    """What the maps of cross-attention show."""
    model, corpus = translator.model, toy_corpus()
    rates = {}
    for name in ("validation", "test"):
        pairs = getattr(corpus, name)[:few]
        batch = batch_of(translator, pairs)
        with inference(model), record_attention(model) as maps:
            model(batch.source, batch.decoder_input)
        rates[name] = reading.error_rates(reading.heads_of(maps), pairs)
    found = {"right": reading.right_sentences(model, batch).float().mean().item()}
    found |= {"error_rate": rates["test"][int(rates["validation"].argmin())].item()}
    of_mean = reading.heads_of(maps).mean(dim=1, keepdim=True)
    found |= {"mean_error_rate": reading.error_rates(of_mean, pairs).item()}
    return rounded(found | of_marks(translator))


def of_marks(translator: Translator, length: int = 7) -> dict:
    """Whether the question follows its mark, and how hard a full stop is looked at."""
    model = translator.model
    matched = questions_and_statements(toy_corpus().test, length)
    asked, stated = (
        batch_of(translator, [pair[i] for pair in matched]).source for i in (0, 1)
    )
    memory = reading.patched_memory(model, stated, asked, MEMORY, length - 1)
    first = reading.write(model, memory, stated, 1)[:, 0]
    is_question = first == translator.target_text.ids["est-ce"]
    looks = reading.first_look(model, stated).mean(dim=0)
    return {
        "asked": is_question.float().mean().item(),
        "look_at_stop": looks.max().item(),
    }


def of_fact(translator: Translator, pairs: Pairs) -> dict:
    """Which vectors of the memory the French article follows, and what it needs."""
    model = translator.model
    batches = [batch_of(translator, [pair[i] for pair in pairs]) for i in (0, 1)]
    source, donor = (batch.source for batch in batches)
    wanted = reading.write(model, model.encode(donor), donor)[:, ARTICLE]

    def share(memory: Tensor) -> float:
        said = reading.write(model, memory, source)[:, ARTICLE]
        return (said == wanted).float().mean().item()

    at = [
        share(reading.patched_memory(model, source, donor, MEMORY, place))
        for place in range(MARK + 1)
    ]
    found = {"at_article": at[ARTICLE], "at_noun": at[NOUN]}
    found |= {"elsewhere": max(at[:ARTICLE] + at[MARK:])}
    return rounded(found)


def leads(translator: Translator, pairs: Pairs) -> dict:
    """How far the donor's article is ahead in score while one vector is hidden."""
    own, donor = (batch_of(translator, [pair[i] for pair in pairs]) for i in (0, 1))
    control, found = reading.same_article(own, donor), {}
    for name, hidden, seen in (("noun", NOUN, ARTICLE), ("the", ARTICLE, NOUN)):

        def lead(other: Batch, *place: int, hidden: int = hidden) -> Tensor:
            return reading.donor_leads(
                translator.model, own, other, place=place, hidden=[hidden]
            )

        patched = lead(donor, seen)
        found |= {
            f"{name}_hidden": lead(donor).mean().item(),
            f"{name}_hidden_patched": patched.mean().item(),
            f"{name}_hidden_ahead": (patched > 0).float().mean().item(),
            f"{name}_hidden_control": lead(control, seen).mean().item(),
        }
    return rounded(found)


def batch_of(translator: Translator, pairs: list[SentencePair]) -> Batch:
    """Sentence pairs as a batch."""
    return make_batch(translator.encode_pairs([(p.source, p.target) for p in pairs]))


def rounded(row: dict) -> dict:
    """Its numbers with four decimals."""
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
