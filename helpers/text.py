"""From text to token ids and back: words, and subwords (lessons 10 and 13).

`Vocabulary` and `SubwordTokenizer` have one protocol: `encode(text) -> ids`,
`decode(ids) -> text`, `tokens(ids) -> labels`, `unknown_words(text) -> words`, `len()`,
`to_json()`, `from_json(text)`. Ids hold neither BOS nor EOS; batching adds them.
"""

import difflib
import json
import re
from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.trainers import BpeTrainer

from helpers import SPECIAL_TOKENS

# A word keeps inner hyphens ("est-ce") and, when elided, its apostrophe ("l'").
_WORD = re.compile(r"\w+(?:-\w+)*'?|[^\w\s]")


def split_words(text: str) -> list[str]:
    """Words and punctuation marks: "l'homme dort." -> ["l'", "homme", "dort", "."]."""
    return _WORD.findall(text)


def join_words(words: Iterable[str], *, space_before: str = "") -> str:
    """The inverse of `split_words`.

    Punctuation follows its word directly but for the marks in space_before: French
    writes "tu dors ?".
    """
    text = ""
    for word in words:
        punctuation = not word[0].isalnum()
        if (
            text
            and not text.endswith("'")
            and (not punctuation or word in space_before)
        ):
            text += " "
        text += word
    return text


class UnknownWordError(ValueError):
    """A word that a Vocabulary does not hold."""


class Vocabulary:
    """Whole words, numbered after the four special tokens."""

    def __init__(self, words: Iterable[str], *, space_before: str = ""):
        self.words = [*SPECIAL_TOKENS, *dict.fromkeys(words)]
        self.space_before = space_before
        self.ids = {word.casefold(): i for i, word in enumerate(self.words)}

    @classmethod
    def from_texts(
        cls, texts: Iterable[str], *, space_before: str = ""
    ) -> "Vocabulary":
        """All words of the texts, sorted."""
        words = {word for text in texts for word in split_words(text)}
        return cls(sorted(words), space_before=space_before)

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, text: str) -> list[int]:
        """The words' ids, whatever their case.

        UnknownWordError, with the nearest words, for one that is not here.
        """
        return [self._id(word) for word in split_words(text)]

    def _id(self, word: str) -> int:
        try:
            return self.ids[word.casefold()]
        except KeyError:
            near = difflib.get_close_matches(word.casefold(), self.ids, n=3)
            hint = f"; near it: {', '.join(near)}" if near else ""
            shown = word if len(word) <= 40 else f"{word[:40]}…"
            raise UnknownWordError(
                f"“{shown}” is not among the {len(self)} words of the vocabulary{hint}"
            ) from None

    def unknown_words(self, text: str) -> list[str]:
        """The words that `encode` would not take."""
        return [word for word in split_words(text) if word.casefold() not in self.ids]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The words and special tokens with these ids."""
        return [self.words[i] for i in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The sentence that the ids spell; special tokens are left out."""
        words = [self.words[i] for i in ids if i >= len(SPECIAL_TOKENS)]
        return join_words(words, space_before=self.space_before)

    def to_json(self) -> str:
        """Words and spacing, for `from_json`."""
        words = self.words[len(SPECIAL_TOKENS) :]
        return json.dumps({"words": words, "space_before": self.space_before})

    @classmethod
    def from_json(cls, text: str) -> "Vocabulary":
        """The vocabulary that `to_json` wrote."""
        return cls(**json.loads(text))


class SubwordTokenizer:
    """Byte-level byte-pair encoding, through the `tokenizers` library.

    Every text can be encoded: what is rare falls apart into bytes.
    Sennrich et al. 2016, section 3.2; Vaswani et al. 2017, section 5.1.
    """

    def __init__(self, tokenizer: Tokenizer):
        # Who types "<eos>" means five letters, not the end of the sentence.
        tokenizer.encode_special_tokens = True
        self.tokenizer = tokenizer
        tokens = tokenizer.decode_batch([[i] for i in range(len(self))])
        self.letters = {letter for token in tokens for letter in token}

    @classmethod
    def train(cls, texts: Iterable[str], *, vocab_size: int) -> "SubwordTokenizer":
        """Learn from texts; vocab_size counts special tokens and the 256 bytes too."""
        tokenizer = Tokenizer(models.BPE())
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=list(SPECIAL_TOKENS),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer)

    def __len__(self) -> int:
        return self.tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """The subwords' ids; a special token's name in the text is only letters."""
        return self.tokenizer.encode(text).ids

    def unknown_words(self, text: str) -> list[str]:
        """The words none of whose letters is in any token: they fall apart into bytes.

        A letter without a token was rare in the training text, or was not there.
        """
        words = [[x for x in word if x.isalpha()] for word in text.split()]
        return [
            "".join(word) for word in words if word and self.letters.isdisjoint(word)
        ]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Readable labels; “▁” marks the start of a word."""
        labels = (self.tokenizer.decode([i], skip_special_tokens=False) for i in ids)
        return [label.replace(" ", "▁") for label in labels]

    def decode(self, ids: Iterable[int]) -> str:
        """The text that the ids spell; special tokens are left out."""
        return self.tokenizer.decode(list(ids)).strip()

    def to_json(self) -> str:
        """All that was learnt, in the `tokenizers` library's own form."""
        return self.tokenizer.to_str()

    @classmethod
    def from_json(cls, text: str) -> "SubwordTokenizer":
        """The tokenizer that `to_json` wrote."""
        return cls(Tokenizer.from_str(text))
