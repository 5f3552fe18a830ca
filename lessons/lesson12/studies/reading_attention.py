"""Which copy of a fact do three equally good toy translators follow?

For each seed: the share of test sentences that are `right`.

Then, for three facts that differ in pairs of sentences: the share of French articles
that become the donor's when its vector is put into the memory at the English article,
at the noun, or elsewhere (the largest share).
"""

from collections.abc import Iterator

from helpers import PAD
from helpers.batching import Batch, make_batch
from helpers.corpus import SentencePair, toy_corpus
from helpers.decoding import inference
from helpers.translator.model import Translator
from helpers.translator.recipes import RECIPES, build, load_text, trained_toy, with_seed
from lessons.lesson12 import reading
from lessons.lesson12.minimal_pairs import ARTICLE, FACTS, NOUN, Pairs, noun_pairs

SEEDS = range(3)


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each seed and fact; `tiny` measures an untrained model."""
    for seed in SEEDS[:1] if tiny else SEEDS:
        translator = trained_toy(seed=seed) if not tiny else None
        if translator is None:
            translator = build(with_seed(RECIPES["toy"], seed), load_text("toy"))
        translator.model.eval().requires_grad_(False)
        of_seed = {"seed": seed, "right": right(translator, few=20 if tiny else None)}
        for fact in FACTS:
            pairs = noun_pairs(fact, 5 if tiny else 200, 0)
            yield of_seed | {"fact": fact} | of_fact(translator, pairs)


def right(translator: Translator, few: int | None) -> float:
    """The share of test sentences in which each next word is right."""
    batch = batch_of(translator, toy_corpus().test[:few])
    with inference(translator.model):
        said = translator.model(batch.source, batch.decoder_input).argmax(dim=-1)
    hits = ((said == batch.labels) | (batch.labels == PAD)).all(dim=1)
    return round(hits.float().mean().item(), 4)


def of_fact(translator: Translator, pairs: Pairs) -> dict:
    """Which vectors of the memory the French article follows."""
    model = translator.model
    own, donor = (batch_of(translator, [pair[i] for pair in pairs]) for i in (0, 1))
    start, top = own.decoder_input[:, : ARTICLE + 1], len(model.encoder.layers)
    shares = []
    for place in range(own.source.size(1)):
        memory = reading.patched_memory(model, own.source, donor.source, top, place)
        said = reading.next_words(model, memory, own.source, start)
        follows = (said == donor.labels[:, ARTICLE]).float()
        shares.append(round(follows.mean().item(), 4))
    elsewhere = max(shares[:ARTICLE] + shares[NOUN + 1 :])
    at = {"at_article": shares[ARTICLE], "at_noun": shares[NOUN]}
    return at | {"elsewhere": elsewhere}


def batch_of(translator: Translator, pairs: list[SentencePair]) -> Batch:
    """Sentence pairs as a batch."""
    return make_batch(translator.encode_pairs([(p.source, p.target) for p in pairs]))
