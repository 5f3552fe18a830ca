"""Which copy of a fact do three equally good toy translators follow?

For each seed: the share of test sentences that are `right`.

Then, for pairs of sentences whose nouns differ in gender: the share of French articles
that stay right if the vector of "the", of the noun, or of both in the memory is the
mean over all sentences (`the_closed`, `noun_closed`, `both_closed`). With one of them
closed, the other is the donor's, and the share counts the donor's articles (`…_donor`);
or that of another sentence with the same article, and it counts the own (`…_control`).

Then, for three facts that differ in pairs of sentences: the share of French articles
that become the donor's when its vector is put into the memory at the English article,
at the noun, or elsewhere (the largest share).
"""

from collections.abc import Iterator

from torch import Tensor

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
        pairs = {fact: noun_pairs(fact, 5 if tiny else 200, 0) for fact in FACTS}
        of_seed |= of_ways(translator, pairs["gender"])
        for fact in FACTS:
            found = of_seed | {"fact": fact} | of_fact(translator, pairs[fact])
            yield {
                k: round(v, 4) if isinstance(v, float) else v for k, v in found.items()
            }


def right(translator: Translator, few: int | None) -> float:
    """The share of test sentences in which each next word is right."""
    batch = batch_of(translator, toy_corpus().test[:few])
    with inference(translator.model):
        said = translator.model(batch.source, batch.decoder_input).argmax(dim=-1)
    hits = ((said == batch.labels) | (batch.labels == PAD)).all(dim=1)
    return hits.float().mean().item()


def of_ways(translator: Translator, pairs: Pairs) -> dict:
    """What the article follows while the vector of "the" or of the noun is closed."""
    model = translator.model
    own, donor = (batch_of(translator, [pair[i] for pair in pairs]) for i in (0, 1))
    due, other = (batch.labels[:, ARTICLE] for batch in (own, donor))
    memory, donors = (model.encode(batch.source) for batch in (own, donor))
    control = memory[reading.same_article(due)]
    mean = memory.mean(dim=0).expand_as(memory)

    def share(wanted: Tensor, **by: Tensor) -> float:
        mixed = memory.clone()
        for name, vectors in by.items():
            place = {"the": ARTICLE, "noun": NOUN}[name]
            mixed[:, place] = vectors[:, place]
        start = own.decoder_input[:, : ARTICLE + 1]
        said = reading.next_words(model, mixed, own.source, start)
        return (said == wanted).float().mean().item()

    found = {"both_closed": share(due, the=mean, noun=mean)}
    for closed, seen in (("the", "noun"), ("noun", "the")):
        found[f"{closed}_closed"] = share(due, **{closed: mean})
        found[f"{closed}_closed_donor"] = share(other, **{closed: mean, seen: donors})
        found[f"{closed}_closed_control"] = share(due, **{closed: mean, seen: control})
    return found


def of_fact(translator: Translator, pairs: Pairs) -> dict:
    """Which vectors of the memory the French article follows."""
    model = translator.model
    own, donor = (batch_of(translator, [pair[i] for pair in pairs]) for i in (0, 1))
    start, top = own.decoder_input[:, : ARTICLE + 1], len(model.encoder.layers)
    shares = []
    for place in range(own.source.size(1)):
        memory = reading.patched_memory(model, own.source, donor.source, top, place)
        said = reading.next_words(model, memory, own.source, start)
        shares.append((said == donor.labels[:, ARTICLE]).float().mean().item())
    elsewhere = max(shares[:ARTICLE] + shares[NOUN + 1 :])
    at = {"at_article": shares[ARTICLE], "at_noun": shares[NOUN]}
    return at | {"elsewhere": elsewhere}


def batch_of(translator: Translator, pairs: list[SentencePair]) -> Batch:
    """Sentence pairs as a batch."""
    return make_batch(translator.encode_pairs([(p.source, p.target) for p in pairs]))
