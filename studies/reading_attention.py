"""What do maps and patches find in five equally good toy translators?

For each seed: how well its best head of cross-attention finds the true alignment (the
head is chosen on validation sentences), and how hard the encoder's article head looks
from articles at their nouns (`article`).

Then, for facts that differ in pairs of sentences: the share of French articles that
become the donor's when its vector is put into the memory at the English article, at the
noun, elsewhere (the largest share), or when the article head's contexts are put in at
the English article (`at_head`). With the noun's place hidden from cross-attention,
without a patch, so many articles are right (`hidden_right`), and so many have the other
gender (`hidden_other`: le for la, or la for le).
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from helpers.attention import record_attention
from helpers.batching import Batch, make_batch
from helpers.corpus import SentencePair, toy_corpus
from helpers.decoding import inference
from helpers.experiments import reading
from helpers.experiments.minimal_pairs import (
    ARTICLE,
    FACTS,
    MARK,
    NOUN,
    Pairs,
    noun_pairs,
)
from helpers.experiments.patching import record_contexts, replace_contexts
from helpers.translator.model import Translator
from helpers.translator.recipes import RECIPES, build, load_text, trained_toy, with_seed

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
        for fact in FACTS:
            pairs = noun_pairs(fact, 5 if tiny else 200, 0)
            yield of_seed | of_fact(translator, fact, pairs, of_seed)


def of_heads(translator: Translator, few: int | None) -> dict:
    """What the maps show."""
    model, corpus = translator.model, toy_corpus()
    rates, looks = {}, {}
    for name in ("validation", "test"):
        pairs = getattr(corpus, name)[:few]
        batch = batch_of(translator, pairs)
        with inference(model), record_attention(model) as maps:
            model(batch.source, batch.decoder_input)
        encoder, cross = reading.heads_of(maps, "encoder"), reading.heads_of(maps)
        rates[name] = reading.error_rates(cross, pairs)
        nouns = reading.noun_masks(pairs, encoder.size(-1))["article"]
        looks[name] = reading.mean_on(encoder, nouns)
    best = int(rates["validation"].argmin())
    of_articles = int(looks["validation"].argmax())
    layer, head = divmod(of_articles, model.config.n_heads)
    found = {"right": reading.right_sentences(model, batch).float().mean().item()}
    found |= {"error_rate": rates["test"][best].item()}
    found |= {"article_layer": layer + 1, "article_head": head + 1}
    return rounded(found | {"article": looks["test"][of_articles].item()})


def of_fact(translator: Translator, fact: str, pairs: Pairs, looks: dict) -> dict:
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
    with record_contexts(model) as contexts:
        model.encode(donor)
    name = f"encoder.layers.{looks['article_layer'] - 1}.self_attention"
    where = (torch.arange(source.size(1)) == ARTICLE)[None]
    heads, attention = looks["article_head"] - 1, model.get_submodule(name)
    with replace_contexts(attention, heads, contexts[name], where):
        at_head = share(model.encode(source))
    found = {"fact": fact, "at_article": at[ARTICLE], "at_noun": at[NOUN]}
    found |= {"elsewhere": max(at[:ARTICLE] + at[MARK:]), "at_head": at_head}
    return rounded(found | without_the_noun(translator, batches))


def without_the_noun(translator: Translator, batches: list[Batch]) -> dict:
    """The articles that are written while the decoder cannot see the noun."""
    source, start, due = (
        torch.cat([getattr(batch, part) for batch in batches])
        for part in ("source", "decoder_input", "labels")
    )
    start, due = start[:, : ARTICLE + 1], due[:, ARTICLE]
    said = reading.say_article(translator.model, source, start, hidden=[NOUN])
    le, la = (translator.target_text.ids[word] for word in ("le", "la"))
    other = ((due == le) & (said == la)) | ((due == la) & (said == le))
    shares = {"hidden_right": said == due, "hidden_other": other}
    return {name: which.float().mean().item() for name, which in shares.items()}


def batch_of(translator: Translator, pairs: list[SentencePair]) -> Batch:
    """Sentence pairs as a batch."""
    return make_batch(translator.encode_pairs([(p.source, p.target) for p in pairs]))


def rounded(row: dict) -> dict:
    """Its numbers with four decimals."""
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
