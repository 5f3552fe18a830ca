"""The components that the lessons build, kept for the lessons after them.

The modules import downwards only: the model (positions, masks, attention, layers,
encoder, decoder, transformer) knows nothing of decoding, training or plots.
"""

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIAL_TOKENS = ("<pad>", "<unk>", "<bos>", "<eos>")
