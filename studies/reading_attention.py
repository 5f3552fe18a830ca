"""What do maps, ablation and patching find in five equally good toy translators?

For each seed: how well its best head of cross-attention finds the true alignment (the
head is chosen on validation sentences), how hard the encoder's article head looks from
articles at their nouns, and from adjectives (`article`, `adjective`), and how many
sentences in 100 are lost when this head's contexts are replaced (`itself`: by its own).

Then, for facts that differ in pairs of sentences: the share of French articles that
become the donor's when its vector is put into the memory at the English article, at the
noun, elsewhere (the largest share), or when the article head's contexts are put in at
the English article (`at_head`). `itself` puts in the sentence's own vectors.

The row "question" is of the first word. It becomes "est-ce" when the question mark's
vector is put in (`at_mark`), or when the full stop's is replaced by 0 (`no_stop`), in
so many sentences. `on_stop` and `on_mark` are the largest weights, over heads, of the
first word on the full stop and on the question mark.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from helpers import EOS
from helpers.attention import record_attention
from helpers.batching import make_batch
from helpers.corpus import toy_corpus
from helpers.decoding import inference
from helpers.experiments import reading
from helpers.experiments.minimal_pairs import ARTICLE, FACTS, MARK, NOUN, noun_pairs
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
        layer, head = of_seed["article_layer"] - 1, of_seed["article_head"] - 1
        for fact in (*FACTS, "itself"):
            found = of_fact(translator, fact, layer, head, 5 if tiny else 200)
            yield of_seed | found
        yield of_seed | of_question(translator, 5 if tiny else 200)


def of_heads(translator: Translator, few: int | None) -> dict:
    """What the maps show, and what is lost without the article head."""
    model, corpus = translator.model, toy_corpus()
    rates, looks, batches = {}, {}, {}
    for name in ("validation", "test"):
        pairs = getattr(corpus, name)[:few]
        ids = translator.encode_pairs([(p.source, p.target) for p in pairs])
        batches[name] = make_batch(ids)
        with inference(model), record_attention(model) as maps:
            model(batches[name].source, batches[name].decoder_input)
        encoder, cross = reading.heads_of(maps, "encoder"), reading.heads_of(maps)
        rates[name] = reading.error_rates(cross, pairs)
        masks = reading.noun_masks(pairs, encoder.size(-1))
        looks[name] = {kind: reading.mean_on(encoder, masks[kind]) for kind in masks}
    best = int(rates["validation"].argmin())
    of_articles = int(looks["validation"]["article"].argmax())
    layer, head = divmod(of_articles, model.config.n_heads)
    lost = reading.points_lost(model, batches["test"], batches["validation"])
    right = reading.right_sentences(model, batches["test"]).float().mean().item()
    found = {"right": right, "error_rate": rates["test"][best].item()}
    found |= {"article_layer": layer + 1, "article_head": head + 1}
    found |= {kind: x[of_articles].item() for kind, x in looks["test"].items()}
    found |= lost(f"encoder.layers.{layer}.self_attention", head)
    return rounded(found)


def of_fact(
    translator: Translator, fact: str, layer: int, head: int, count: int
) -> dict:
    """Where the memory keeps what the French article needs to know."""
    model = translator.model
    pairs = noun_pairs(FACTS[0] if fact == "itself" else fact, count, 0)
    source, donor = (ids(translator, [p[i].source for p in pairs]) for i in (0, 1))
    put_in = source if fact == "itself" else donor
    wanted = reading.write(model, model.encode(donor), donor)[:, ARTICLE]

    def share(memory: Tensor) -> float:
        said = reading.write(model, memory, source)[:, ARTICLE]
        return (said == wanted).float().mean().item()

    at = [
        share(reading.patched_memory(model, source, put_in, MEMORY, place))
        for place in range(MARK + 1)
    ]
    with torch.no_grad(), record_contexts(model) as contexts:
        model.encode(put_in)
    name = f"encoder.layers.{layer}.self_attention"
    where = torch.zeros_like(source, dtype=torch.bool)
    where[:, ARTICLE] = True
    patched = replace_contexts(model.get_submodule(name), head, contexts[name], where)
    with torch.no_grad(), patched:
        memory = model.encode(source)
    found = {"fact": fact, "at_article": at[ARTICLE], "at_noun": at[NOUN]}
    elsewhere = max(at[:ARTICLE] + at[MARK:])
    return rounded(found | {"elsewhere": elsewhere, "at_head": share(memory)})


def of_question(translator: Translator, count: int) -> dict:
    """Whether the mark's vector makes a question, and whether the mark is looked at."""
    model = translator.model
    texts = [pair[0].source for pair in noun_pairs(FACTS[0], count, 0)]
    source = ids(translator, texts)
    donor = ids(translator, [text.replace(".", "?") for text in texts])
    asks = translator.target_text.ids["est-ce"]
    memory = reading.patched_memory(model, source, donor, MEMORY, MARK)
    rest = reading.patched_memory(model, source, donor, MEMORY, list(range(MARK)))
    none = model.encode(source)
    none[:, MARK] = 0
    found = {"fact": "question"}
    for name, some in (("at_mark", memory), ("elsewhere", rest), ("no_stop", none)):
        said = reading.write(model, some, source, 1)[:, 0]
        found[name] = (said == asks).float().mean().item()
    for name, tokens in (("on_stop", source), ("on_mark", donor)):
        weights = reading.first_look(model, tokens)
        found[name] = weights.mean(dim=0).max().item()
    return rounded(found)


def ids(translator: Translator, texts: list[str]) -> Tensor:
    """Sentences of one length as (batch, length)."""
    return torch.tensor([[*translator.source_text.encode(t), EOS] for t in texts])


def rounded(row: dict) -> dict:
    """Its numbers with four decimals."""
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
