"""Writes the golden files of the tokenizer tests with Hugging Face tokenizers.

    pip install tokenizers==0.23.3
    python3 tools/golden/tokenizer_golden.py

From tests/data/austen-excerpt.txt:
    tests/data/tokenizer-hf.json     a vocabulary of 1,024 trained and saved by tokenizers
    tests/data/tokenizer-added.json  the same with added tokens of every supported kind
    tests/data/tokenizer-cases.json  texts with their ids under both
"""

import json
import os
import random

import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "data")
VOCAB_SIZE = 1024

FIXED_TEXTS = [
    "",
    " ",
    "  ",
    "\n",
    "Hello world",
    "I'm they're we've he'll she'd it's can't 'twas o'clock 'S 'LL",
    "a  b   c\n\n\nd \n e\t\tf   ",
    "  leading and trailing  ",
    "12345 and 3.14159, 1,000,000; x1y2z3",
    "na\u00efve caf\u00e9 \u00dcber stra\u00dfe \u0130stanbul",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u4f60\u597d\u4e16\u754c "
    "\u3053\u3093\u306b\u3061\u306f \ud55c\uad6d\uc5b4 \u0645\u0631\u062d\u0628\u0627",
    "emoji \U0001F600\U0001F468\u200d\U0001F469\u200d\U0001F467 flags \U0001F1E9\U0001F1EA",
    "e\u0301 combining, \u0660\u0661\u0662 Arabic digits, \u2160\u2161 Roman, \u00bd half, x\u00b2",
    "no-break\u00a0space\u2003em\u3000ideographic\u0085next\u2028line\u180emongolian",
    "control \x00\x01\x1f\x7f\x80\x9f bytes",
    "---------- =========== ........... aaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "<|endoftext|>",
    "before<|endoftext|>after <|endoftext|><|endoftext|> <|endoftext",
    "<tool> <tools> <tool>x<<tool>><|pad|> \u00fcber-token",
    "https://example.org/a_b?c=d&e=%20f#g",
    "\ufeffBOM \ufffd replacement \U0010FFFF last \ue000 private \ua7cb new letter",
]


def random_texts():
    generator = random.Random(7)
    pools = [
        list(map(chr, range(0x20, 0x7F))),
        list(" \t\n'stremvld"),
        list(map(chr, range(0xA0, 0x250))),
        [chr(c) for c in range(0x10000) if not 0xD800 <= c < 0xE000],
        [chr(c) for c in range(0x1F300, 0x1F700)],
    ]
    for _ in range(60):
        length = generator.randint(1, 40)
        yield "".join(generator.choice(generator.choice(pools)) for _ in range(length))


def train(text):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        min_frequency=2,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer


def ids(tokenizer, text, recognise):
    tokenizer.encode_special_tokens = not recognise
    return tokenizer.encode(text).ids


def main():
    with open(os.path.join(DATA, "austen-excerpt.txt"), encoding="utf-8") as file:
        excerpt = file.read()
    plain = train(excerpt)
    plain.save(os.path.join(DATA, "tokenizer-hf.json"))
    added = Tokenizer.from_str(plain.to_str())
    added.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("<tools>")])
    added.add_tokens([AddedToken(" <tool>x", normalized=True), AddedToken("\u00fcber-token")])
    added.add_special_tokens([AddedToken("<|pad|>", normalized=False)])
    added.save(os.path.join(DATA, "tokenizer-added.json"))

    cases = []
    for text in [*FIXED_TEXTS, *random_texts(), excerpt[40000:52000]]:
        cases.append(
            {
                "text": text,
                "plain": ids(plain, text, False),
                "recognised": ids(plain, text, True),
                "added_plain": ids(added, text, False),
                "added_recognised": ids(added, text, True),
            }
        )
    golden = {"generator": "tools/golden/tokenizer_golden.py", "seed": 7,
              "tokenizers": tokenizers.__version__, "cases": cases}
    with open(os.path.join(DATA, "tokenizer-cases.json"), "w", encoding="ascii") as file:
        json.dump(golden, file, separators=(",", ":"))
        file.write("\n")


main()
