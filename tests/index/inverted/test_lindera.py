"""Japanese, cut by a package and a dictionary of this machine. The judge is the reference."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import lance.query
import pyarrow as pa
import pytest
from index.inverted.reference_tokens import reference_tokens
from index.inverted.test_tokens import per_document

import pilum
import pilum.query
from pilum.errors import InvalidInputError, MissingDependencyError, UnsupportedFeatureError
from pilum.index.inverted.dictionaries import segmenter
from pilum.index.inverted.parameters import InvertedParameters
from pilum.index.inverted.tokens import Analyzer
from pilum.query import MatchQuery

BASE = "lindera/tiny"
KEYWORDS: dict[str, Any] = {"base_tokenizer": BASE, "with_position": True}
WORDS = {
    "東京": 30,
    "都": 50,
    "東": 60,
    "京都": 28,
    "に": 1,
    "住む": 40,
    "すもも": 30,
    "もも": 30,
    "も": 1,
}
UNKNOWN = {"DEFAULT": 48, "SPACE": 89, "KANJI": 114, "HIRAGANA": 131, "ALPHA": 134}
CHARACTERS = """\
DEFAULT 0 1 0
SPACE 0 1 0
KANJI 0 0 2
HIRAGANA 0 1 2
ALPHA 1 1 0
0x0020 SPACE
0x0041..0x005A ALPHA
0x0061..0x007A ALPHA
0x3041..0x309F HIRAGANA
0x4E00..0x9FA5 KANJI
"""
TEXTS = [
    "東京都に住む",
    "すもももももももものうち",
    "The ABC 12３ 深圳",
    "a\u0301b É",
    "都に 東京",
    "",
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of dictionaries, with a dictionary of a few words."""
    lindera = pytest.importorskip("lindera")
    models, source = tmp_path_factory.mktemp("models"), tmp_path_factory.mktemp("source")
    rest = "名詞,一般,*,*,*,*"
    (source / "char.def").write_text(CHARACTERS, "utf-8")
    unknown = [f"{name},0,0,{cost}00,{rest},*" for name, cost in UNKNOWN.items()]
    (source / "unk.def").write_text("\n".join(unknown) + "\n", "utf-8")
    words = [f"{word},0,0,{cost}00,{rest},{word},{word},{word}" for word, cost in WORDS.items()]
    (source / "words.csv").write_text("\n".join(words) + "\n", "utf-8")
    (source / "matrix.def").write_text("1 1\n0 0 0\n")
    folder = models / BASE / "main"
    folder.mkdir(parents=True)
    lindera.build_dictionary(str(source), str(folder), lindera.Metadata(name="tiny"))
    settings = f'segmenter:\n  mode: "normal"\n  dictionary: "{folder}"\n'
    (models / BASE / "config.yml").write_text(settings)
    (models / "lindera/bare").mkdir()
    (models / "lindera/damaged").mkdir()
    (models / "lindera/damaged/config.yml").write_text("[")
    return models


@pytest.fixture
def home(models: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("LANCE_LANGUAGE_MODEL_HOME", str(models))
    segmenter.cache_clear()
    yield models
    segmenter.cache_clear()


def analyzer(**keywords: object) -> Analyzer:
    return Analyzer(InvertedParameters.from_keywords({**KEYWORDS, **keywords}))


@pytest.mark.usefixtures("home")
@pytest.mark.seeds(1)
def test_tokens_and_positions_are_those_of_the_reference(seed: int, tmp_path: Path) -> None:
    source = random.Random(seed)
    parts = [*WORDS, "深圳", "うち", " ", "The", "running", "12３", "é"]
    drawn = ["".join(source.choices(parts, k=source.randint(0, 12))) for _ in range(60)]
    texts = pa.array([*TEXTS, *drawn, None])
    expected = reference_tokens(texts, tmp_path, base_tokenizer=BASE)
    assert per_document(analyzer().tokens(texts)) == expected
    for text in [*TEXTS, *drawn[:9]]:
        plain: dict[str, Any] = {"stem": False, "remove_stop_words": False, "base_tokenizer": BASE}
        own = [(token.text, token.position) for token in pilum.tokenize(text, **plain)]
        assert own == [(token.text, token.position) for token in lance.tokenize(text, **plain)]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("keywords", [{}, {"lower_case": False, "max_token_length": 8}])
def test_json_documents(keywords: dict[str, Any], tmp_path: Path) -> None:
    """Their texts are cut, other values are tokens as they are; positions count the tokens."""
    documents = [
        '{"a":"東京都に住む","b,c":["もも 東京",1.5,null,""],"d":{"e":true}}',
        '{"a":["The RUNNING é","都"],"長":"すもももももも"}',
        '"東京都"',
        "[]",
        None,
    ]
    texts = pa.array(documents, pa.json_())
    expected = reference_tokens(texts, tmp_path, base_tokenizer=BASE, **keywords)
    parameters = InvertedParameters.from_keywords({**KEYWORDS, **keywords}, is_json=True)
    own = Analyzer(parameters)
    assert per_document(own.tokens(texts)) == expected
    builder = own.builder()
    numbered = builder.analyze(texts)
    assert len(builder) == len({token for document in expected for token, _ in document})
    assert numbered.ends.tolist() == own.tokens(texts).ends.tolist()
    assert own.words("a,str,東京都;b,number,1") == [
        ("a,str,東京", 0),
        ("a,str,都", 1),
        ("b,number,1", 2),
    ]
    with pytest.raises(InvalidInputError, match="Invalid triple format"):
        own.words("東京")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("writer", [lance, pilum])
def test_indices_are_shared(writer: Any, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = pa.table({"i": range(len(TEXTS)), "s": TEXTS})
    written = writer.write_dataset(table, uri)
    written.create_scalar_index("s", "INVERTED", **KEYWORDS)
    for query, name in (
        ("東京 都", "MatchQuery"),
        ("東京都", "PhraseQuery"),
        ("もも", "MatchQuery"),
    ):
        found = []
        for library in (lance, pilum):
            asked = getattr(library.query, name)(query, "s")
            dataset = library.dataset(uri)
            found.append(dataset.to_table(["i", "_score"], full_text_query=asked))
        assert found[0].num_rows > 0
        assert found[0].to_pydict() == found[1].to_pydict()


def test_settings_of_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are used if the folder of a dictionary has none."""
    bare = "lindera/bare"
    with pytest.raises(InvalidInputError, match="dictionary field is missing"):
        analyzer(base_tokenizer=bare)
    monkeypatch.setenv("LINDERA_CONFIG_PATH", str(home / BASE / "config.yml"))
    assert analyzer(base_tokenizer=bare).words("東京都") == [("東京", 0), ("都", 1)]


@pytest.mark.usefixtures("home")
def test_what_is_missing_or_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match=r"no folder .*lindera/none"):
        analyzer(base_tokenizer="lindera/none")
    with pytest.raises(InvalidInputError, match=r"damaged.config.yml"):
        analyzer(base_tokenizer="lindera/damaged")
    monkeypatch.setitem(sys.modules, "lindera", None)
    with pytest.raises(MissingDependencyError, match="japanese"):
        analyzer()


def test_an_index_without_its_dictionary(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is left out with a warning, where rows can be read without it."""
    dataset = pilum.write_dataset({"i": [1], "s": ["東京都"]}, str(tmp_path / "t"))
    dataset.create_scalar_index("s", "INVERTED", **KEYWORDS)
    monkeypatch.setenv("LANCE_LANGUAGE_MODEL_HOME", str(home / "elsewhere"))
    segmenter.cache_clear()
    other = pilum.dataset(str(tmp_path / "t"), session=pilum.Session())
    with pytest.warns(RuntimeWarning, match="needs a dictionary of lindera"):
        assert other.to_table(full_text_query=MatchQuery("東京都", "s")).num_rows == 1
    with pytest.raises(UnsupportedFeatureError, match="needs a dictionary"):
        other.stats.index_stats("s_idx")
