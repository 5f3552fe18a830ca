"""Models without an encoder: equal to Hugging Face's, in one go and step by step."""

import pytest
import torch
from torch import nn

from helpers import EOS, PAD
from helpers.caching import AttentionCache
from helpers.interop.huggingface import gpt2_from, language_model_from_llama
from helpers.modern.gpt2 import GPT2
from helpers.modern.language_model import LanguageModel, LanguageModelConfig
from lessons.lesson18.writing import generate, next_token_loss

VOCAB, LENGTH = 41, 9
SMALL = LanguageModelConfig(VOCAB, 24, 4, 2, 40, 2, max_length=32)


def llama(n_kv_heads=2):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        num_attention_heads=4,
        num_key_value_heads=n_kv_heads,
        intermediate_size=48,
        num_hidden_layers=2,
        max_position_embeddings=32,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        pad_token_id=PAD,
        bos_token_id=2,
        eos_token_id=EOS,
    )
    return LlamaForCausalLM(config).eval()


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCAB,
        n_embd=32,
        n_head=4,
        n_layer=2,
        n_positions=32,
        pad_token_id=PAD,
        bos_token_id=2,
        eos_token_id=EOS,
    )
    return GPT2LMHeadModel(config).eval()


@pytest.fixture(params=["llama", "llama, one head of keys", "gpt2"])
def pair(request, seed):
    """Hugging Face's model at random, norms and biases too, and ours like it."""
    if request.param == "gpt2":
        theirs, copy = gpt2(), gpt2_from
    else:
        theirs, copy = (
            llama(1 if "one" in request.param else 2),
            (language_model_from_llama),
        )
    for parameter in theirs.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, mean=0.5, std=0.3)
        else:
            nn.init.normal_(parameter, std=0.2)
    return theirs, copy(theirs)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@torch.no_grad()
def test_logits_equal_hugging_faces(pair):
    theirs, ours = pair
    tokens = torch.randint(4, VOCAB, (3, LENGTH))
    close(ours(tokens), theirs(tokens).logits)


@pytest.mark.slow
@torch.no_grad()
def test_logits_equal_hugging_faces_with_caches(pair):
    theirs, ours = pair
    tokens = torch.randint(4, VOCAB, (3, LENGTH))
    caches = [AttentionCache() for _ in ours.blocks]
    due = theirs(tokens[:, :4], use_cache=True)
    close(ours(tokens[:, :4], caches), due.logits)
    close(ours(tokens[:, :4]), due.logits)
    whole = theirs(tokens).logits
    for i in range(4, LENGTH):
        token = tokens[:, i : i + 1]
        due = theirs(token, past_key_values=due.past_key_values, use_cache=True)
        step = ours(token, caches)
        close(step, due.logits)
        close(step, whole[:, i : i + 1])
    keys = due.past_key_values.layers[1].keys
    close(caches[1].keys, keys)


@pytest.mark.slow
@torch.no_grad()
def test_prompts_padded_in_front_equal_hugging_faces_and_themselves_alone(pair):
    theirs, ours = pair
    tokens = torch.randint(4, VOCAB, (2, LENGTH))
    tokens[0, :3] = PAD
    real = tokens != PAD
    places = (real.cumsum(1) - 1).clamp(min=0)
    due = theirs(tokens, attention_mask=real.long(), position_ids=places).logits
    logits = ours(tokens, real=real)
    close(logits[real], due[real])
    close(logits[:1, 3:], ours(tokens[:1, 3:]))
    if isinstance(ours, GPT2):  # the mask alone is not enough here
        unmoved = torch.arange(LENGTH).expand(2, LENGTH)
        wrong = theirs(tokens, attention_mask=real.long(), position_ids=unmoved).logits
        assert (logits - wrong)[0, 3:].abs().max() > 1e-2
    assert logits.isfinite().all()  # padding that sees nothing, too


@pytest.mark.slow
def test_generation_equals_hugging_faces(pair):
    theirs, ours = pair
    prompts = torch.randint(4, VOCAB, (3, 6))
    prompts[1, :2] = prompts[2, :5] = PAD
    ids = generate(ours, prompts, max_new=8)
    due = theirs.generate(
        prompts,
        attention_mask=(prompts != PAD).long(),
        max_new_tokens=8,
        do_sample=False,
    )[:, 6:]
    assert torch.equal(ids, due)


def test_gradients_reach_every_parameter():
    for kind in (LanguageModel, GPT2):
        model = kind(SMALL)
        tokens = torch.randint(4, VOCAB, (2, LENGTH))
        next_token_loss(model, tokens, tokens != PAD).backward()
        without = [n for n, p in model.named_parameters() if not p.grad.abs().sum()]
        zero = [n for n in without if "key_projection.bias" not in n]
        assert not zero


def test_the_loss_counts_what_it_is_told(seed):
    model = LanguageModel(SMALL)
    tokens = torch.randint(4, VOCAB, (2, 6))
    counted = torch.zeros(2, 6, dtype=torch.bool)
    counted[0, 3] = counted[1, 1] = counted[1, 5] = True
    scores = model(tokens).log_softmax(-1)
    each = [scores[r, i - 1, tokens[r, i]] for r, i in ((0, 3), (1, 1), (1, 5))]
    torch.testing.assert_close(
        next_token_loss(model, tokens, counted), -torch.stack(each).mean()
    )
    counted[:, 0] = True  # nothing stands before the first one
    torch.testing.assert_close(
        next_token_loss(model, tokens, counted), -torch.stack(each).mean()
    )


def test_rows_end_by_themselves():
    class Says(LanguageModel):
        def forward(self, tokens, caches=None, *, real=None):
            logits = torch.zeros(*tokens.shape, VOCAB)
            logits[..., 7] = 1
            if caches and real.size(1) > 4:
                logits[0, :, EOS] = 2
            return logits

    ids = generate(Says(SMALL), torch.full((2, 4), 5), max_new=4)
    assert ids.tolist() == [[7, EOS, PAD, PAD], [7, 7, 7, 7]]


@pytest.mark.slow
def test_a_model_can_be_exported():
    for kind in (LanguageModel, GPT2):
        model, tokens = kind(SMALL).eval(), torch.randint(4, VOCAB, (2, LENGTH))
        exported = torch.export.export(model, (tokens,)).module()
        torch.testing.assert_close(exported(tokens), model(tokens))


# -- bad input -------------------------------------------------------------------------


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
    with pytest.raises(ValueError, match="prompts are padded in front"):
        generate(model, torch.tensor([[5, 6, PAD]]), max_new=2)
    caches = [AttentionCache() for _ in model.blocks]
    model(torch.full((1, 30), 5), caches)
    with pytest.raises(ValueError, match="33 tokens long"):
        model(torch.full((1, 3), 5), caches)
    with pytest.raises(ValueError, match="no token counts"):
        tokens = torch.full((1, 3), 5)
        next_token_loss(model, tokens, tokens == PAD)
