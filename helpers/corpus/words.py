"""The words of the toy corpus: one entry a word, with what each can do in a sentence.

A noun, adjective or verb is added in one line here; `helpers.corpus.grammar` makes
sentences of them (lesson 10).
"""

from dataclasses import dataclass
from functools import cache

# --- What a word is ------------------------------------------------------------------


@cache
def elides(following: str) -> bool:
    """Whether the word begins with a vowel sound: "arbre", "homme"; not "hibou"."""
    return following == "y" or (
        following[:1] in tuple("aàâeéèêiîoôœuh") and following not in ASPIRATED
    )


@dataclass(frozen=True)
class Noun:
    """`kinds` say what a noun can do in a sentence; its own English word is one too.

    own: can follow "my"; related: always does. mass: has no plural and takes "some"
    bread; single: has no plural here.
    """

    english: str
    french: str
    gender: str
    kinds: str
    english_plural: str = ""
    french_plural: str = ""

    @property
    def english_forms(self) -> tuple[str, str]:
        """Singular and plural."""
        return self.english, self.english_plural or self.english + "s"

    @property
    def french_forms(self) -> tuple[str, str]:
        """Singular and plural."""
        return self.french, self.french_plural or self.french + "s"

    @property
    def always_one(self) -> bool:
        """Whether it has no plural here."""
        return bool({"mass", "single"} & set(self.kinds.split()))


@dataclass(frozen=True)
class Adjective:
    """`french`: masculine, feminine, masculine plural, feminine plural."""

    english: str
    french: str
    nouns: str  # the kinds of nouns that it can describe
    before: bool = False  # stands before its noun in French
    vowel: str = ""  # the masculine before a vowel, where it is a form of its own
    predicate: bool = True  # goes after "is" as well
    passing: bool = False  # a mood that comes and goes: "is often sad"

    def form(self, gender: str, plural: bool, following: str = "") -> str:
        """The French form that agrees; `following` is the word that comes after it."""
        if self.vowel and gender == "m" and not plural and elides(following):
            return self.vowel
        return self.french.split()[2 * plural + (gender == "f")]

    @property
    def one_gender(self) -> bool:
        """Whether the form does not tell masculine from feminine: "triste"."""
        masculine, feminine, *_ = self.french.split()
        return masculine == feminine


STATE_MOODS = {"often": "statement", "never": "negative"}


@dataclass(frozen=True)
class Verb:
    """`french`: the forms for je, tu, il, nous, ils.

    frames: the kinds of subjects, and for each the kinds of objects it goes with.
    objects: the determiners that suit its object, a key of DETERMINER_GROUPS.
    """

    english: str
    third: str
    french: str
    frames: dict[str, str]
    objects: str = "any"
    state: bool = False  # does not go with "often" and "never"
    one: bool = False  # its object is singular here

    def mood(self, mood: str) -> str:
        """The mood that it can take in the place of this one."""
        return STATE_MOODS.get(mood, mood) if self.state else mood


@dataclass(frozen=True)
class Determiner:
    """English: singular, plural; French: masculine, feminine, plural."""

    english: tuple[str, str]
    french: tuple[str, str, str]


# --- One entry a word ----------------------------------------------------------------

# fmt: off
NOUNS = (
    Noun("man", "homme", "m", "person adult", "men"),
    Noun("woman", "femme", "f", "person adult", "women"),
    Noun("boy", "garçon", "m", "person kid"),
    Noun("girl", "fille", "f", "person kid"),
    Noun("child", "enfant", "m", "person kid own", "children"),
    Noun("friend", "ami", "m", "person own related"),
    Noun("brother", "frère", "m", "person own related kin"),
    Noun("sister", "sœur", "f", "person own related kin"),
    Noun("neighbour", "voisin", "m", "person job own"),
    Noun("doctor", "médecin", "m", "person job own"),
    Noun("teacher", "professeur", "m", "person job own"),
    Noun("baker", "boulanger", "m", "person job"),
    Noun("hero", "héros", "m", "person noble", "heroes", "héros"),
    Noun("queen", "reine", "f", "person noble"),
    Noun("dog", "chien", "m", "animal pet own large"),
    Noun("cat", "chat", "m", "animal pet own"),
    Noun("horse", "cheval", "m", "animal own large", "", "chevaux"),
    Noun("cow", "vache", "f", "animal own large"),
    Noun("bird", "oiseau", "m", "animal", "", "oiseaux"),
    Noun("owl", "hibou", "m", "animal", "", "hiboux"),
    Noun("mouse", "souris", "f", "animal", "mice", "souris"),
    Noun("apple", "pomme", "f", "food snack own"),
    Noun("egg", "œuf", "m", "food own"),
    Noun("cake", "gâteau", "m", "food own", "", "gâteaux"),
    Noun("bread", "pain", "m", "food snack own mass"),
    Noun("cheese", "fromage", "m", "food snack own mass"),
    Noun("soup", "soupe", "f", "food own mass"),
    Noun("water", "eau", "f", "drink plain mass"),
    Noun("milk", "lait", "m", "drink plain own mass"),
    Noun("coffee", "café", "m", "drink own mass"),
    Noun("book", "livre", "m", "readable gift thing own"),
    Noun("letter", "lettre", "f", "readable gift thing own"),
    Noun("newspaper", "journal", "m", "readable thing own", "", "journaux"),
    Noun("story", "histoire", "f", "readable own", "stories"),
    Noun("hat", "chapeau", "m", "wearable gift thing own", "", "chapeaux"),
    Noun("coat", "manteau", "m", "wearable gift thing own", "", "manteaux"),
    Noun("shirt", "chemise", "f", "wearable gift thing own"),
    Noun("scarf", "écharpe", "f", "wearable gift thing own", "scarves"),
    Noun("key", "clé", "f", "gift thing own"),
    Noun("box", "boîte", "f", "container thing own", "boxes"),
    Noun("bag", "sac", "m", "container thing own"),
    Noun("table", "table", "f", "furniture own"),
    Noun("chair", "chaise", "f", "furniture own"),
    Noun("bed", "lit", "m", "furniture own"),
    Noun("door", "porte", "f", "own"),
    Noun("window", "fenêtre", "f", "own"),
    Noun("car", "voiture", "f", "vehicle own"),
    Noun("train", "train", "m", "vehicle single"),
    Noun("tree", "arbre", "m", "plant"),
    Noun("flower", "fleur", "f", "plant gift own"),
    Noun("house", "maison", "f", "building room own single"),
    Noun("garden", "jardin", "m", "room own single"),
    Noun("kitchen", "cuisine", "f", "room own single"),
    Noun("school", "école", "f", "building spot goal own single"),
    Noun("hospital", "hôpital", "m", "building spot goal single"),
    Noun("station", "gare", "f", "building spot goal single"),
    Noun("market", "marché", "m", "spot goal single"),
    Noun("village", "village", "m", "room goal own single"),
    Noun("forest", "forêt", "f", "room single"),
)

ASPIRATED = ("héros", "hibou", "hiboux")  # no elision before these: "le hibou"

ADJECTIVES = (
    Adjective("little", "petit petite petits petites",
              "kid kin animal book hat key flower container furniture car tree house "
              "garden village", before=True, predicate=False),
    Adjective("big", "grand grande grands grandes",
              "large kin bird owl container furniture car tree flower hat coat house "
              "garden kitchen school hospital", before=True),
    Adjective("beautiful", "beau belle beaux belles",
              "woman child queen horse bird owl plant wearable story house garden "
              "village", before=True, vowel="bel"),
    Adjective("old", "vieux vieille vieux vieilles",
              "adult job noble friend pet horse tree wearable book newspaper furniture "
              "container car building", before=True, vowel="vieil"),
    Adjective("new", "nouveau nouvelle nouveaux nouvelles",
              "job friend wearable book story furniture vehicle building key",
              before=True, vowel="nouvel", predicate=False),
    Adjective("young", "jeune jeune jeunes jeunes",
              "adult kid job noble pet horse cow", before=True),
    Adjective("good", "bon bonne bons bonnes",
              "apple bread cheese cake soup coffee book story job queen car",
              before=True),
    Adjective("black", "noir noire noirs noires",
              "pet horse cow bird wearable container car furniture"),
    Adjective("white", "blanc blanche blancs blanches",
              "pet horse cow bird owl mouse wearable furniture door house flower"),
    Adjective("red", "rouge rouge rouges rouges",
              "apple flower bird wearable container car door chair"),
    Adjective("green", "vert verte verts vertes",
              "apple bird tree book wearable container car door window chair table"),
    Adjective("sad", "triste triste tristes tristes", "person animal story",
              passing=True),
    Adjective("happy", "heureux heureuse heureux heureuses", "person animal",
              passing=True),
    Adjective("tired", "fatigué fatiguée fatigués fatiguées", "person animal",
              passing=True),
    Adjective("sick", "malade malade malades malades", "person animal", passing=True),
    Adjective("rich", "riche riche riches riches", "adult job noble friend village"),
    Adjective("heavy", "lourd lourde lourds lourdes",
              "container furniture coat door book car key"),
    Adjective("hot", "chaud chaude chauds chaudes", "drink soup bread"),
    Adjective("cold", "froid froide froids froides", "drink soup house kitchen"),
    Adjective("expensive", "cher chère chers chères",
              "wearable car house bag furniture book flower cake apple"),
)

TRANSITIVE = (
    Verb("eat", "eats", "mange manges mange mangeons mangent",
         {"person": "food", "animal": "snack"}),
    Verb("drink", "drinks", "bois bois boit buvons boivent",
         {"person": "drink", "animal": "plain"}),
    Verb("see", "sees", "vois vois voit voyons voient",
         {"person": "person animal vehicle plant house", "animal": "person animal"}),
    Verb("hear", "hears", "entends entends entend entendons entendent",
         {"person": "person animal vehicle", "animal": "person animal"}, "definite"),
    Verb("look at", "looks at", "regarde regardes regarde regardons regardent",
         {"person": "person animal plant book house", "animal": "person animal"},
         "definite"),
    Verb("look for", "looks for", "cherche cherches cherche cherchons cherchent",
         {"person": "person animal wearable container book letter key",
          "animal": "person"}),
    Verb("wait for", "waits for", "attends attends attend attendons attendent",
         {"person": "person train", "pet": "person"}, "definite"),
    Verb("listen to", "listens to", "écoute écoutes écoute écoutons écoutent",
         {"person": "person bird story", "pet": "person"}, "definite"),
    Verb("love", "loves", "aime aimes aime aimons aiment",
         {"person": "person animal house garden book story village", "pet": "person"},
         "definite", state=True),
    Verb("help", "helps", "aide aides aide aidons aident", {"person": "person"},
         "definite"),
    Verb("know", "knows", "connais connais connaît connaissons connaissent",
         {"person": "adult kid job noble story village"}, "definite", state=True),
    Verb("buy", "buys", "achète achètes achète achetons achètent",
         {"person": "food drink wearable furniture book newspaper car flower house"},
         "unowned"),
    Verb("read", "reads", "lis lis lit lisons lisent", {"person": "readable"}),
    Verb("wear", "wears", "porte portes porte portons portent", {"person": "wearable"},
         one=True),
    Verb("open", "opens", "ouvre ouvres ouvre ouvrons ouvrent",
         {"person": "door window container letter book"}, "definite"),
    Verb("have", "has", "ai as a avons ont",
         {"person": "animal kin friend wearable car house book key"}, "indefinite",
         state=True),
)
GIVE = Verb("give", "gives", "donne donnes donne donnons donnent", {"person": "gift"},
            state=True)
INTRANSITIVE = (
    Verb("sleep", "sleeps", "dors dors dort dormons dorment",
         {"person": "", "animal": ""}),
    Verb("work", "works", "travaille travailles travaille travaillons travaillent",
         {"person": ""}),
    Verb("sing", "sings", "chante chantes chante chantons chantent",
         {"person": "", "bird": ""}),
    Verb("dance", "dances", "danse danses danse dansons dansent", {"person": ""}),
    Verb("run", "runs", "cours cours court courons courent",
         {"person": "", "pet": "", "horse": "", "mouse": ""}),
    Verb("play", "plays", "joue joues joue jouons jouent", {"person": "", "pet": ""}),
)
LIVE = Verb("live", "lives", "habite habites habite habitons habitent",
            {"person": "", "animal": ""}, state=True)
GO = Verb("go", "goes", "vais vas va allons vont", {"person": ""})
COME = Verb("come", "comes", "viens viens vient venons viennent",
            {"person": "", "pet": "", "horse": ""}, state=True)
BE = Verb("be", "is", "suis es est sommes sont", {"person": "", "animal": ""})
FIRST, SECOND, THIRD, WE, THEY = range(5)  # the places of the French forms

VERBS = (*TRANSITIVE, GIVE, *INTRANSITIVE, LIVE, GO, COME)
VERB = {verb.english: verb for verb in VERBS}
WITH_PERSONS = tuple(  # verbs that a person can be the object of
    verb for verb in TRANSITIVE
    if {"person", "adult"} & set(verb.frames["person"].split())
)

DETERMINERS = {
    "the": Determiner(("the", "the"), ("le", "la", "les")),
    "this": Determiner(("this", "these"), ("ce", "cette", "ces")),
    "my": Determiner(("my", "my"), ("mon", "ma", "mes")),
    "your": Determiner(("your", "your"), ("ton", "ta", "tes")),
    "his": Determiner(("his", "his"), ("son", "sa", "ses")),
    "her": Determiner(("her", "her"), ("son", "sa", "ses")),
    "our": Determiner(("our", "our"), ("notre", "notre", "nos")),
    "their": Determiner(("their", "their"), ("leur", "leur", "leurs")),
    "a": Determiner(("a", "some"), ("un", "une", "des")),
    "some": Determiner(("some", ""), ("de le", "de la", "")),  # of what has no plural
    "a?": Determiner(("a", "any"), ("un", "une", "des")),  # in a question
    "some?": Determiner(("any", ""), ("de le", "de la", "")),
    "not a": Determiner(("a", "any"), ("de", "de", "de")),  # under negation
    "not some": Determiner(("any", ""), ("de", "de", "")),
    "no": Determiner(("no", "no"), ("de", "de", "de")),
    "two": Determiner(("", "two"), ("", "", "deux")),
    "three": Determiner(("", "three"), ("", "", "trois")),
}
INDEFINITE = {  # how "a" and "some" change with the mood
    "statement": "{}", "often": "{}", "question": "{}?",
    "negative": "not {}", "never": "not {}", "no": "no",
}
POSSESSIVES = ("my", "your", "his", "her", "our", "their")
DETERMINER_GROUPS = {
    "definite": (*("the",) * 7, "this", "this", *POSSESSIVES),
    "indefinite": (*("a",) * 6, "two", "three"),
    "a": ("a",),
    "possessive": POSSESSIVES,
    "subject": (*("the",) * 8, "this", "this", *POSSESSIVES, "a", "a", "two"),
    "the": ("the",),
    "unowned": (*("the",) * 3, "this", *("a",) * 4, "two"),
    "any": (*("the",) * 4, "this", *POSSESSIVES, *("a",) * 6, "two", "three"),
    "place": (*("the",) * 8, "this", *POSSESSIVES),
}

# The subject, English and French, its gender ("" where nobody can tell), its person;
# then the object: English, French, French where it is "to him".
PRONOUNS = (
    ("I", "je", "", FIRST, "me", "me", "me"),
    ("you", "tu", "", SECOND, "you", "te", "te"),
    ("he", "il", "m", THIRD, "him", "le", "lui"),
    ("she", "elle", "f", THIRD, "her", "la", "lui"),
    ("we", "nous", "", WE, "us", "nous", "nous"),
    ("they", "ils", "m", THEY, "them", "les", "leur"),
)

# English, French, who or what can be there, where, doing what.
PLACES = (
    ("in", "dans", "person", "room school", "be sleep play work sing dance run"),
    ("in", "dans", "person pet", "house village", "live"),
    ("in", "dans", "person", "kitchen garden house", "eat drink read"),
    ("in", "dans", "pet mouse", "house kitchen garden", "be sleep play run"),
    ("in", "dans", "animal", "garden village forest", "be sleep live sing"),
    ("in", "dans", "thing", "container kitchen house car", "be"),
    ("in", "dans", "food", "kitchen", "be"),
    ("in", "dans", "snack egg cake", "container", "be"),
    ("on", "sur", "pet thing", "furniture", "be sleep"),
    ("on", "sur", "food", "table", "be"),
    ("under", "sous", "pet thing", "furniture", "be sleep"),
    ("under", "sous", "person animal", "tree", "be sleep play sing"),
    ("near", "près de", "person animal", "building forest market",
     "be sleep play live work sing run"),
    ("near", "près de", "person animal", "person tree", "be sleep"),
    ("near", "près de", "pet thing", "furniture door window", "be"),
    ("behind", "derrière", "person animal", "building tree door", "be sleep play"),
    ("at", "à", "person", "spot", "be work"),
    ("with", "avec", "person", "person",
     "be work sing dance play live run eat drink go come"),
)
# A verb, its preposition in both languages, the places, their determiners.
WAYS = (
    (GO, "to", "à", "goal", "the"),
    (COME, "from", "de", "goal garden forest kitchen house", "place"),
)

# Why one does something, or does not: mood, verbs, adjectives.
REASONS = (
    ("statement", "sleep", "tired sick"),
    ("statement", "sing dance play", "happy"),
    ("negative", "work run", "tired sick"),
    ("negative", "sing dance play", "tired sick sad"),
)
# Kinds of subjects of "is" with an adjective; both clauses joined have the same.
DESCRIBABLE = (
    "person", "person", "pet horse cow", "wearable container furniture car",
    "building garden village", "drink soup", "bread cheese cake soup coffee book story",
    "flower tree door apple",
)

# Adjective and noun, or subject noun and verb: kept out of train, validation and test.
HELD_OUT = frozenset({
    ("black", "cat"), ("white", "horse"), ("red", "door"), ("old", "house"),
    ("beautiful", "garden"), ("little", "dog"), ("new", "car"), ("tired", "girl"),
    ("sad", "woman"), ("heavy", "table"), ("good", "soup"), ("young", "teacher"),
    ("big", "tree"), ("green", "hat"), ("sick", "child"), ("happy", "boy"),
    ("expensive", "coat"), ("rich", "doctor"),
    ("girl", "read"), ("baker", "sleep"), ("dog", "see"), ("child", "dance"),
    ("man", "open"), ("cat", "drink"), ("teacher", "buy"), ("woman", "look for"),
    ("doctor", "wait for"), ("boy", "eat"), ("sister", "sing"), ("brother", "work"),
    ("queen", "wear"), ("neighbour", "help"), ("bird", "hear"), ("friend", "give"),
})
# fmt: on
