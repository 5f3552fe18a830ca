"""A model without an encoder: equal to Hugging Face's, at once and step by step."""

import pytest
import torch
from torch import nn

from helpers import EOS, PAD
from helpers.caching import AttentionCache
from helpers.interop.huggingface import language_model_from_llama
from helpers.modern.language_model import LanguageModel, LanguageModelConfig
from lessons.lesson18.writing import generate

VOCAB = 41
SMALL = LanguageModelConfig(VOCAB, 24, 4, 2, 40, 2, max_length=32)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("n_kv_heads", [1, 2])
@torch.no_grad()
def test_logits_and_writing_equal_hugging_faces(n_kv_heads, seed):
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": n_kv_heads}
    sizes |= {"num_hidden_layers": 2, "max_position_embeddings": 32}
    rope = {"rope_type": "default", "rope_theta": 500.0}
    special = {"pad_token_id": PAD, "bos_token_id": 2, "eos_token_id": EOS}
    config = LlamaConfig(**sizes, **special, rope_parameters=rope)
    theirs = LlamaForCausalLM(config).eval()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, mean=0.5 * (parameter.dim() == 1), std=0.2)
    ours, tokens = language_model_from_llama(theirs), torch.randint(4, VOCAB, (3, 9))
    whole = theirs(tokens).logits
    close(ours(tokens), whole)
    caches = [AttentionCache() for _ in ours.blocks]
    close(ours(tokens[:, :4], caches), whole[:, :4])
    for i in range(4, 9):
        close(ours(tokens[:, [i]], caches), whole[:, [i]])
    prompt = tokens[:1, :6]
    due = theirs.generate(prompt, max_new_tokens=8, do_sample=False)[0, 6:]
    assert generate(ours, prompt, 8) == due.tolist()


@pytest.mark.slow
def test_a_model_can_be_exported():
    model, tokens = LanguageModel(SMALL).eval(), torch.randint(4, VOCAB, (2, 9))
    exported = torch.export.export(model, (tokens,)).module()
    torch.testing.assert_close(exported(tokens), model(tokens))


# -- bad input -------------------------------------------------------------------------


LLAMA_3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0}
LLAMA_3 |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA_3 |= {"original_max_position_embeddings": 16}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"attention_bias": True}, "attention_bias must be False: True"),
        ({"mlp_bias": True}, "mlp_bias must be False: True"),
        ({"hidden_act": "gelu"}, "hidden_act must be 'silu': 'gelu'"),
        ({"rope_parameters": LLAMA_3}, "rope_type must be 'default': 'llama3'"),
    ],
)
def test_a_llama_with_what_ours_lacks_is_refused(setting, said):
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"vocab_size": VOCAB, "hidden_size": 32, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 48, "num_hidden_layers": 1}
    theirs = LlamaForCausalLM(LlamaConfig(**sizes, **setting))
    with pytest.raises(ValueError, match=said):
        language_model_from_llama(theirs)


def test_bad_sizes_and_tokens():
    with pytest.raises(ValueError, match="n_layers must be at least 1: 0"):
        LanguageModelConfig(VOCAB, n_layers=0)
    with pytest.raises(ValueError, match="d_model=10 is not divisible by n_heads=4"):
        LanguageModel(LanguageModelConfig(VOCAB, d_model=10))
    model = LanguageModel(SMALL)
    with pytest.raises(ValueError, match="33 tokens long, at most 32 fit"):
        model(torch.full((1, 33), 5))
    with pytest.raises(ValueError, match="tokens must be a non-empty"):
        model(torch.zeros(0, 4, dtype=torch.long))
    with pytest.raises(ValueError, match="integer ids, not torch"):
        model(torch.ones(1, 4))
    with pytest.raises(ValueError, match="max_new must be at least 1: 0"):
        generate(model, torch.full((1, 3), 5), max_new=0)
    caches = [AttentionCache() for _ in model.blocks]
    model(torch.full((1, 30), 5), caches)
    with pytest.raises(ValueError, match="33 tokens long"):
        model(torch.full((1, 3), 5), caches)
