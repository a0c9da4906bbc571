"""The eighteen kinds of small functions, as templates.

Placeholders: LIST (the argument's name), LOOP (the loop variable), SUM (the accumulator), K (a constant).
"""

from __future__ import annotations

from typing import NamedTuple


class Template(NamedTuple):
    """A family: function names, typed parameters, docstring openings and the body with placeholders."""

    names: str
    parameters: str
    returns: str
    texts: tuple[str, ...]
    body: str


LIST, TEXT, NUMBER = "LIST: list[int]", "text: str", "n: int"
TEMPLATES = (
    Template(
        "sum_above sum_over add_above",
        LIST,
        "int",
        ("Return the sum of LIST greater than K.", "Add up all LIST that are above K."),
        "SUM = 0\nfor LOOP in LIST:\n    if LOOP > K:\n        SUM += LOOP\nreturn SUM",
    ),
    Template(
        "count_below count_under num_below",
        LIST,
        "int",
        ("Return how many LIST are less than K.", "Count the LIST below K."),
        "SUM = 0\nfor LOOP in LIST:\n    if LOOP < K:\n        SUM += 1\nreturn SUM",
    ),
    Template(
        "scale multiply_all times",
        LIST,
        "list[int]",
        ("Return LIST multiplied by K.", "Multiply each of LIST by K."),
        "return [LOOP * K for LOOP in LIST]",
    ),
    Template(
        "keep_multiples only_multiples filter_multiples",
        LIST,
        "list[int]",
        ("Keep only the LIST that K divides.", "Return the multiples of K in LIST."),
        "SUM = []\nfor LOOP in LIST:\n    if LOOP % K == 0:\n        SUM.append(LOOP)\nreturn SUM",
    ),
    Template(
        "largest find_max maximum",
        LIST,
        "int",
        ("Return the largest of LIST.", "Find the maximum of LIST."),
        "SUM = LIST[0]\nfor LOOP in LIST:\n    if LOOP > SUM:\n        SUM = LOOP\nreturn SUM",
    ),
    Template(
        "smallest find_min minimum",
        LIST,
        "int",
        ("Return the smallest of LIST.", "Find the minimum of LIST."),
        "SUM = LIST[0]\nfor LOOP in LIST:\n    if LOOP < SUM:\n        SUM = LOOP\nreturn SUM",
    ),
    Template(
        "running_totals cumulative prefix_sums",
        LIST,
        "list[int]",
        ("Return the running totals of LIST.", "Return the sums of all prefixes of LIST."),
        "SUM = []\n"
        "current = 0\n"
        "for LOOP in LIST:\n"
        "    current += LOOP\n"
        "    SUM.append(current)\n"
        "return SUM",
    ),
    Template(
        "unique distinct without_duplicates",
        LIST,
        "list[int]",
        ("Return LIST without duplicates, in order.", "Remove repeated entries of LIST."),
        "seen = set()\n"
        "SUM = []\n"
        "for LOOP in LIST:\n"
        "    if LOOP not in seen:\n"
        "        seen.add(LOOP)\n"
        "        SUM.append(LOOP)\n"
        "return SUM",
    ),
    Template(
        "histogram count_each frequencies",
        LIST,
        "dict[int, int]",
        ("Count how often each entry of LIST occurs.", "Return the frequency of each of LIST."),
        "SUM = {}\nfor LOOP in LIST:\n    SUM[LOOP] = SUM.get(LOOP, 0) + 1\nreturn SUM",
    ),
    Template(
        "average mean_of mean",
        LIST,
        "float",
        (
            "Return the average of LIST, or 0 if empty.",
            "Compute the mean of LIST; 0 when there are none.",
        ),
        "if not LIST:\n    return 0\nreturn sum(LIST) / len(LIST)",
    ),
    Template(
        "count_vowels num_vowels vowels",
        TEXT,
        "int",
        ("Return how many vowels are in text.", "Count the vowels of text."),
        'SUM = 0\nfor char in text.lower():\n    if char in "aeiou":\n        SUM += 1\nreturn SUM',
    ),
    Template(
        "is_palindrome palindrome reads_same",
        TEXT,
        "bool",
        ("Check if text reads the same backwards.", "Return True if text is a palindrome."),
        "return text == text[::-1]",
    ),
    Template(
        "long_words words_longer select_words",
        TEXT,
        "list[str]",
        (
            "Return the words of text longer than K letters.",
            "List the words with more than K letters.",
        ),
        "SUM = []\n"
        "for word in text.split():\n"
        "    if len(word) > K:\n"
        "        SUM.append(word)\n"
        "return SUM",
    ),
    Template(
        "repeat_text repeated echo",
        TEXT,
        "str",
        ("Return text repeated K times, joined by spaces.", "Join K copies of text with spaces."),
        'return " ".join([text] * K)',
    ),
    Template(
        "factorial fact product_up_to",
        NUMBER,
        "int",
        ("Return the factorial of n.", "Compute the product of 1 to n."),
        "SUM = 1\nfor LOOP in range(2, n + 1):\n    SUM *= LOOP\nreturn SUM",
    ),
    Template(
        "is_prime prime check_prime",
        NUMBER,
        "bool",
        ("Return True if n is a prime number.", "Check whether n is prime."),
        "if n < 2:\n"
        "    return False\n"
        "for LOOP in range(2, int(n ** 0.5) + 1):\n"
        "    if n % LOOP == 0:\n"
        "        return False\n"
        "return True",
    ),
    Template(
        "digit_sum sum_digits add_digits",
        NUMBER,
        "int",
        ("Return the sum of the digits of n.", "Add up the digits of n."),
        "SUM = 0\nwhile n > 0:\n    SUM += n % 10\n    n //= 10\nreturn SUM",
    ),
    Template(
        "fibonacci fib fib_number",
        NUMBER,
        "int",
        ("Return the n-th Fibonacci number.", "Compute Fibonacci number n."),
        "a, b = 0, 1\nfor LOOP in range(n):\n    a, b = b, a + b\nreturn a",
    ),
)
