"""The words that the generated families share."""

NAMES = (
    "Ana", "Ben", "Cara", "Dan", "Ella", "Finn", "Gina", "Hugo", "Iris", "Jonas", "Kira", "Leo", "Mia", "Noah",
    "Olga", "Paul", "Rosa", "Sam", "Tara", "Uma", "Vera", "Will", "Yara", "Zoe", "Tom", "Lily", "Omar", "Nina",
    "Jack", "Emma", "Liam", "Ruth",
)  # fmt: skip
ITEMS = (
    "apples", "pencils", "books", "stickers", "marbles", "cookies", "oranges", "cards", "shells", "stamps",
    "buttons", "flowers", "toys", "cups", "candles", "balls", "muffins", "coins", "ribbons", "tickets",
)  # fmt: skip
QUALITIES = (
    "red", "blue", "green", "small", "large", "old", "new", "round", "heavy", "light", "quiet", "fast", "wooden",
    "broken", "clean", "wet", "dry", "cheap", "rare", "sweet",
)  # fmt: skip
PLACES = ("market", "shop", "school fair", "farm", "library", "bakery", "museum", "toy store")
JOBS = (
    "teacher",
    "baker",
    "driver",
    "nurse",
    "painter",
    "farmer",
    "pilot",
    "writer",
    "singer",
    "cook",
)
TOWNS = ("Oslo", "Lima", "Cairo", "Paris", "Quito", "Bern", "Delhi", "Kyoto", "Porto", "Riga")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
