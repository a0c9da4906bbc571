"""A prompt is named by its tokens."""

from hashlib import sha256

from dflash_bench.workloads.prompts import Item, hash_ids, make_prompt


def test_hash_is_that_of_the_decimal_ids() -> None:
    assert hash_ids([1, 23]) == sha256(b"1,23").hexdigest()


def test_neighbouring_ids_do_not_run_together() -> None:
    assert hash_ids([1, 23]) != hash_ids([12, 3])


def test_prompt_keeps_the_items_name_and_answer() -> None:
    prompt = make_prompt(Item("a", "x", None, answer="42"), "x", [7])
    assert (prompt.id, prompt.answer, prompt.ids) == ("a", "42", (7,))
