"""What the chat family talks about; all text is our own."""

EVENTS = [
    "the party",
    "dinner",
    "the meeting",
    "the picnic",
    "the concert",
    "lunch",
    "the trip",
    "the class",
]
REASONS = [
    "I have a cold",
    "the train is late",
    "my car broke down",
    "I have to work",
    "my sister is visiting",
    "I forgot the date",
]
ROLES = ["friend", "teacher", "boss", "neighbour", "colleague", "landlord", "coach", "aunt"]
HOW_TO = {
    "make tea": [
        "Boil fresh water.",
        "Put a tea bag into a cup.",
        "Pour the water over it.",
        "Wait for three minutes.",
        "Take out the bag and add milk if you like.",
    ],
    "plant a tree": [
        "Choose a sunny place.",
        "Dig a hole twice as wide as the roots.",
        "Set the tree upright.",
        "Fill the hole with soil.",
        "Water it well.",
    ],
    "clean a bike": [
        "Rinse off the dirt.",
        "Wash the frame with soap.",
        "Brush the chain.",
        "Dry it with a cloth.",
        "Oil the chain.",
    ],
    "cook rice": [
        "Rinse the rice.",
        "Add two cups of water for each cup of rice.",
        "Bring it to the boil.",
        "Cover it and cook on low heat for fifteen minutes.",
        "Let it rest before serving.",
    ],
    "pack for a trip": [
        "Make a list.",
        "Lay out your clothes.",
        "Roll them to save space.",
        "Put heavy things at the bottom.",
        "Keep papers within reach.",
    ],
    "learn new words": [
        "Pick ten words a day.",
        "Write each in a sentence.",
        "Say them aloud.",
        "Repeat them in the evening.",
        "Test yourself after a week.",
    ],
    "paint a wall": [
        "Move the furniture away.",
        "Cover the floor.",
        "Fill the holes.",
        "Paint the edges first.",
        "Roll on two thin coats.",
    ],
    "write a report": [
        "Collect the facts.",
        "Decide on the main point.",
        "Write an outline.",
        "Fill in each part.",
        "Read it again the next day.",
    ],
    "wash a sweater": [
        "Fill a basin with cool water.",
        "Add a little soap.",
        "Press the sweater gently.",
        "Rinse it twice.",
        "Dry it flat on a towel.",
    ],
    "fix a flat tyre": [
        "Take off the wheel.",
        "Pull out the tube.",
        "Find the hole.",
        "Glue a patch over it.",
        "Put everything back and pump it up.",
    ],
}
TOPICS = {
    "rain": (
        "The sun warms water and some of it rises as vapour.",
        "High up the vapour cools into tiny drops.",
        "The drops join and fall when they are heavy enough.",
    ),
    "a rainbow": (
        "Sunlight is a mix of all colours.",
        "Raindrops bend each colour by a different amount.",
        "So we see the colours side by side in the sky.",
    ),
    "tides": (
        "The moon pulls on the sea.",
        "The water rises a little on the side that faces the moon.",
        "As the earth turns, the sea rises and falls twice a day.",
    ),
    "seasons": (
        "The axis of the earth is tilted.",
        "For half of the year the north leans towards the sun.",
        "Then the days are long and it is summer there.",
    ),
    "an echo": (
        "Sound travels through the air as a wave.",
        "A hard wall sends the wave back.",
        "We hear the same sound again a moment later.",
    ),
    "bread rising": (
        "Yeast eats the sugar in the dough.",
        "It gives off a gas.",
        "The gas makes bubbles and the dough grows.",
    ),
    "a magnet": (
        "In iron each atom is a tiny magnet.",
        "In a magnet most of them point the same way.",
        "Together they pull on other iron.",
    ),
    "a shadow": (
        "Light travels in straight lines.",
        "A solid thing stops it.",
        "The dark place behind the thing is its shadow.",
    ),
    "soap": (
        "Water alone does not mix with grease.",
        "One end of a soap molecule likes water and the other likes grease.",
        "So the soap carries the grease away.",
    ),
    "a battery": (
        "A battery keeps energy in chemicals.",
        "When the circuit is closed, a reaction pushes electrons through it.",
        "It is empty when the chemicals are used up.",
    ),
}
WEATHER = ["sunny", "cold", "windy", "rainy", "warm", "foggy", "cloudy"]
DEEDS = [
    "went to the market",
    "read a book",
    "repaired the fence",
    "visited the museum",
    "baked a cake",
    "walked by the river",
    "played chess",
    "watered the garden",
    "wrote letters",
]
GIFTS = {
    "who likes music": ["headphones", "a concert ticket"],
    "who cooks": ["a good knife", "a box of spices"],
    "who reads": ["a novel", "a reading lamp"],
    "who runs": ["warm socks", "a water bottle"],
    "who draws": ["a sketchbook", "a set of pencils"],
    "who travels": ["a small bag", "a map of the world"],
}
