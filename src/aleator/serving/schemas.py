"""Schemas of requests and answers: they check what comes in, and make the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

# ids are texts or numbers, as the model has them
Id = (
    Annotated[int, Field(strict=True, ge=-(1 << 63), lt=1 << 64)]
    | StrictStr
    | Annotated[float, Field(strict=True, allow_inf_nan=False)]
)
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Lam = Annotated[
    float, Field(strict=True, ge=0, le=1, allow_inf_nan=False, description="1: expectation, 0: uncertainty")
]
Count = Annotated[StrictInt, Field(ge=1, le=1 << 31)]


def _sound(text: str) -> str:
    """Refuse half characters, which JSON can name and no encoding can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("a name is no valid Unicode") from None
    return text


Name = Annotated[str, Field(strict=True, max_length=200), AfterValidator(_sound)]
LIST = "At most `limits.batch` of `/model`."


class Asked(BaseModel):
    """A body of a request. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Range(Asked):
    """A range of numbers. Both ends count, and an end that is left out is open."""

    low: Number | None = None
    high: Number | None = None


Value = StrictBool | StrictStr | Annotated[int, Field(strict=True, ge=-(1 << 63), lt=1 << 63)] | Number
Wanted = Range | Value | list[Value]


class OfUsers(Asked):
    """Known users, or histories of newcomers by name: one of the two."""

    users: Annotated[list[Id], Field(min_length=1, description=LIST)] | None = None
    histories: Annotated[dict[Name, list[Id]], Field(min_length=1, description=LIST)] | None = None

    @model_validator(mode="after")
    def one(self) -> Self:
        if (self.users is None) == (self.histories is None):
            raise ValueError("give users or histories, and not both")
        return self


class OfUser(Asked):
    """One known user, or the history of a newcomer: one of the two."""

    user: Id | None = None
    history: list[Id] | None = None

    @model_validator(mode="after")
    def one(self) -> Self:
        if (self.user is None) == (self.history is None):
            raise ValueError("give a user or a history, and not both")
        return self


class Recommend(OfUsers):
    """Ask for lists. Each option is that of `recommend` of the library."""

    k: Count | None = Field(None, description="Items per user: 20, or all where there are fewer.")
    lam: Lam | None = None
    allow: list[Id] | None = Field(None, description="Only these items are candidates.")
    deny: list[Id] | None = Field(None, description="These items are not candidates.")
    where: dict[str, Wanted] | None = Field(None, description="Attributes that a candidate must have.")
    filter_seen: StrictBool = True
    explain: Count | None = Field(None, description="So many items of the history that add most to each part.")

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"users": [1, 2], "k": 10}, {"histories": {"me": [5, 7]}, "lam": 0.3}]}
    )


class Score(OfUsers):
    """Ask for the scores of items."""

    items: Annotated[list[Id], Field(min_length=1, description=LIST)]
    lam: Lam | None = None

    model_config = ConfigDict(json_schema_extra={"examples": [{"users": [1], "items": [5, 7]}]})


class Similar(Asked):
    """Ask for similar items."""

    items: Annotated[list[Id], Field(min_length=1, description=LIST)]
    k: Count | None = Field(None, description="Items to list for each: 10, or all where there are fewer.")
    lam: Lam | None = None

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [5], "k": 3}]})


class Explain(OfUser):
    """Ask what the score of an item comes from."""

    items: Annotated[list[Id], Field(min_length=1, description=LIST)]
    n: Count = Field(3, description="Items of the history for each item.")
    lam: Lam | None = None

    model_config = ConfigDict(json_schema_extra={"examples": [{"user": 1, "items": [5], "n": 3}]})


class Map(OfUser):
    """Ask for a sample of the catalogue, as one user sees it."""

    limit: Count | None = Field(None, description="1000, and at most `limits.points` of `/model`.")
    lam: Lam | None = None

    model_config = ConfigDict(json_schema_extra={"examples": [{"user": 1, "limit": 200}]})


# Answers


class Problem(BaseModel):
    reason: str
    message: str


class Error(BaseModel):
    """What every refused request gets."""

    error: Problem


class Health(BaseModel):
    status: Literal["ok"]


class Ready(BaseModel):
    status: Literal["ready"]
    fingerprint: str


class Limits(BaseModel):
    k: int
    batch: int
    history: int
    points: int
    body_bytes: int


class CurvePoint(BaseModel):
    """Held-out figures at one lam."""

    model_config = ConfigDict(populate_by_name=True)

    lam: float
    recall: float | None = Field(alias="recall@20")
    ndcg: float | None = Field(alias="ndcg@20")
    tail: float | None = Field(alias="tail_recall@50")


class ChoiceOfLam(BaseModel):
    lam: float
    discount: float
    users: int
    select: str
    why: str
    curve: list[CurvePoint]
    bare: CurvePoint


class Evaluation(BaseModel):
    data: str
    users: int
    protocols: dict[str, dict[str, float | None]]
    lists: dict[str, float]


class AboutModel(BaseModel):
    """What is served."""

    name: str
    kind: str
    model: str
    fingerprint: str
    version: str
    lam: float | None
    discount: float | None
    has_uncertainty: bool
    has_titles: bool
    has_confidence: bool
    n_users: int
    n_items: int
    n_pairs: int
    tail_rule: str
    attributes: list[str]
    limits: Limits
    choice: ChoiceOfLam | None
    evaluation: Evaluation | None
    has_test: bool


class Item(BaseModel):
    item_id: Id
    title: str | None = None
    popularity: int
    tail: bool


class Listed(Item):
    rank: int
    score: float
    expectation: float | None
    uncertainty: float | None
    confidence: float | None
    in_test: bool | None = Field(None, description="Only for known users, and only if a test part is known.")
    expectation_from: list[Id] | None = None
    uncertainty_from: list[Id] | None = None
    expectation_from_titles: list[str] | None = None
    uncertainty_from_titles: list[str] | None = None


class UserList(BaseModel):
    user: Id
    unknown_items: int = Field(description="Items of the history that the model does not know. They were left out.")
    items: list[Listed]


class Lists(BaseModel):
    fingerprint: str
    lam: float | None
    lists: list[UserList]


class UserScores(BaseModel):
    user: Id
    unknown_items: int
    scores: list[float | None]
    expectations: list[float | None] | None
    uncertainties: list[float | None] | None


class Scores(BaseModel):
    fingerprint: str
    lam: float | None
    items: list[Id]
    users: list[UserScores]


class SimilarItem(Item):
    rank: int
    similarity: float


class SimilarList(BaseModel):
    item_id: Id
    title: str | None = None
    items: list[SimilarItem]


class SimilarLists(BaseModel):
    fingerprint: str
    lam: float | None
    lists: list[SimilarList]


class Contribution(BaseModel):
    item_id: Id
    title: str | None = None
    adds_to_expectation: float | None
    adds_to_uncertainty: float | None = None
    adds_to_score: float
    share: float


class ExplainedItem(BaseModel):
    item_id: Id
    title: str | None = None
    rest: float | None
    exact: bool | None
    contributions: list[Contribution]


class Explained(BaseModel):
    fingerprint: str
    lam: float | None
    user: Id | None
    unknown_items: int
    items: list[ExplainedItem]


class Point(Item):
    expectation: float | None
    uncertainty: float | None


class Points(BaseModel):
    fingerprint: str
    lam: float | None
    unknown_items: int
    points: list[Point]


class FoundUser(BaseModel):
    user_id: Id
    n_items: int


class FoundUsers(BaseModel):
    users: list[FoundUser]


class FoundItems(BaseModel):
    items: list[Item]


class UserHistory(BaseModel):
    user_id: Id
    n_items: int
    history: list[Item] = Field(description="The first 100 items, in the order of their ids.")
    test: list[Item] | None = Field(description="Items of the test part, null if none is known.")


Answer = dict[str, Any]
