"""What does an engine for serving make of a trained translator?

The same weights in the course's code and, exported, in CTranslate2: the same search in
float32, in turns, on one thread each. The beam has no length penalty here, since the
two engines' penalties differ. Seconds are the processor's, not the clock's.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial

import ctranslate2

from helpers.decoding import beam_search, greedy_decode, translate_ids
from helpers.evaluation import bleu
from helpers.translator.export import ServedTranslator, export
from helpers.translator.recipes import load_text, trained_toy

BEAMS = {"greedy": 1, "beam of 5": 5}
TURNS = 5  # of which the quickest counts


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each search and engine; `tiny`: of four sentences.

    `same` counts sentences of which both engines write all tokens.
    """
    translator, pairs = trained_toy(), load_text("toy").test[: 4 if tiny else None]
    sources, references = zip(*pairs, strict=True)
    ids = [translator.source_text.encode(source) for source in sources]
    with tempfile.TemporaryDirectory() as folder:
        export(translator, folder, sources)
        served = ServedTranslator(folder)
        for search, size in BEAMS.items():
            decode = partial(beam_search, beam_size=size, length_penalty=0.0)
            decode = greedy_decode if size == 1 else decode
            options = {"beam_size": size, "length_penalty": 0.0}
            engines = {
                "course": partial(translate_ids, translator.model, ids, decode=decode),
                f"CTranslate2 {ctranslate2.__version__}": partial(
                    served.translate_ids, ids, **options
                ),
            }
            written, seconds = in_turns(engines)
            for engine, outputs in written.items():
                said = [translator.target_text.decode(tokens) for tokens in outputs]
                pairs = zip(outputs, written["course"], strict=True)
                yield {
                    "search": search,
                    "engine": engine,
                    "sentences": len(ids),
                    "same": sum(one == other for one, other in pairs),
                    "bleu": round(bleu(said, references), 2),
                    "sentences_per_cpu_second": round(len(ids) / seconds[engine]),
                }


def in_turns(engines: dict[str, Callable]) -> tuple[dict[str, list], dict[str, float]]:
    """What each engine writes, and the processor's seconds of its quickest turn."""
    written, seconds = {}, {}
    for _ in range(TURNS):
        for name, run in engines.items():
            started = time.process_time()
            written[name] = run()
            taken = time.process_time() - started
            seconds[name] = min(taken, seconds.get(name, taken))
    return written, seconds
