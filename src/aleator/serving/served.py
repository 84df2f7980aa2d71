"""Served: a loaded model, and every answer that the service gives from it.

Each answer comes from the function that the library itself answers with. Nothing here knows HTTP. One thread at a time
may ask for `lists`, since the scan of a catalogue has buffers of its own; any thread may ask for the rest.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from aleator.aur import AUR
from aleator.aur.loading import load_model
from aleator.batches import Users
from aleator.checkpoint.manifest import NAME, damaged, read_manifest, regular, tensor_file
from aleator.data.arrays import Array, picked
from aleator.data.splits import Split
from aleator.data.vocabulary import Vocabulary
from aleator.errors import AleatorError
from aleator.ranking.contributions import as_lists
from aleator.ranking.explained import explained_columns
from aleator.ranking.lists import Candidates, ranked
from aleator.ranking.similar import Moments, moments, similar_columns
from aleator.ranking.top import hide, top_k
from aleator.recommender import Recommender
from aleator.serving import schemas
from aleator.serving.errors import Refused
from aleator.serving.held import Held
from aleator.serving.settings import Settings
from aleator.version import __version__

Answer = dict[str, Any]
_SHOWN = 100  # items of a history that are shown
_TOP = 20  # items of each list that a map holds


class Who(NamedTuple):
    """Who is asked about: names for the answer, and histories."""

    names: list[Any]
    users: Users
    unknown: list[int]  # items of each history that the model does not know


@dataclass(frozen=True)
class Ask:
    """A request for lists that was checked."""

    body: schemas.Recommend
    who: Who
    k: int

    @property
    def empty(self) -> bool:
        """Whether somebody has no history, and so gets what is popular."""
        return bool((self.who.users.size == 0).any())


def options(body: schemas.Recommend) -> str:
    """What requests for lists must have in common to be scored in one call."""
    return body.model_dump_json(exclude={"users", "histories", "k"})


class Served:
    """A model that is served under a name, with its test part if one is known."""

    def __init__(self, model: Recommender, name: str, settings: Settings, split: Split | None = None) -> None:
        self.model, self.name, self.settings, self.split = model, name, settings, split
        self.data = model.fitted
        self.fingerprint = model.fingerprint
        self.held = None if split is None else Held(split.test, self.data)
        self.tail = model.tail_mask.cpu().numpy()
        self._moments: tuple[float | None, Moments] | None = None

    @classmethod
    def load(cls, folder: Path, settings: Settings, split: Split | None = None) -> Served:
        """Load and check a folder, and compute what all workers will share.

        The model is mapped from a copy that has no name any more. So whatever happens to the folder, also if somebody
        writes into its files, what is served is what was checked.
        """
        with tempfile.TemporaryDirectory(prefix="aleator-model-") as copy:
            try:
                for name in (NAME, tensor_file(read_manifest(folder))):
                    regular(folder / name)
                    shutil.copyfile(folder / name, Path(copy) / name)
                model = load_model(copy, "cpu")
            except OSError as error:
                raise damaged(folder, error) from None
            except AleatorError as error:
                raise AleatorError(error.problem.replace(copy, str(folder)), error.remedy) from None
        made = cls(model, folder.resolve().name, settings, split)
        made.warm()
        return made

    def warm(self) -> None:
        """Answer once, so that what is kept for speed is there before the first request."""
        everyone = self.data.users.decode(np.arange(min(2, self.data.n_users))).tolist()
        self.recommend([schemas.Recommend.model_validate({"users": everyone})])
        _ = self.user_texts, self.item_texts

    # What is served

    @property
    def lam(self) -> float | None:
        """The lam of the model. None if it has no uncertainty."""
        return self.model.lam_used if isinstance(self.model, AUR) else None

    def about(self) -> Answer:
        """What `/model` tells, without the evaluation."""
        model, data = self.model, self.data
        aur = model if isinstance(model, AUR) else None
        return {
            "name": self.name,
            "kind": type(model).__name__,
            "model": type(model if aur is None else aur.model).__name__,
            "fingerprint": self.fingerprint,
            "version": __version__,
            "lam": self.lam,
            "discount": None if aur is None else aur.discount_used,
            "has_uncertainty": aur is not None,
            "has_titles": data.titles is not None,
            "has_confidence": aur is not None and aur.chance is not None,
            "n_users": data.n_users,
            "n_items": data.n_items,
            "n_pairs": len(data),
            "tail_rule": "mass:0.5" if aur is None else str(aur.tail_rule),
            "attributes": sorted(data.attributes),
            "limits": {
                name: getattr(self.settings, name) for name in ("k", "batch", "history", "points", "body_bytes")
            },
            "choice": None if aur is None else _choice(aur),
            "has_test": self.held is not None,
        }

    def at(self, lam: float | None) -> Recommender:
        """The model at a lam."""
        if lam is None:
            return self.model
        if not isinstance(self.model, AUR):
            kind = type(self.model).__name__
            raise Refused("no_uncertainty", f"This {kind} has no uncertainty, and so no lam", "Leave lam out")
        return self.model.at(lam)

    def _told(self, lam: float | None) -> Answer:
        """What stands on top of every answer."""
        return {"fingerprint": self.fingerprint, "lam": self.lam if lam is None else lam}

    # Who asks, and for what

    def who(self, body: schemas.OfUsers) -> Who:
        """The users of a request."""
        if body.users is not None:
            self._limit(len(body.users), "batch", "users")
            return self._known(body.users)
        assert body.histories is not None
        self._limit(len(body.histories), "batch", "histories")
        return self._newcomers(body.histories)

    def one(self, body: schemas.OfUser) -> Who:
        """The one user of a request."""
        if body.user is not None:
            return self._known([body.user])
        assert body.history is not None
        return self._newcomers({"": body.history})._replace(names=[None])

    def _known(self, ids: Sequence[Any]) -> Who:
        dense = self.data.users.encode(ids)
        if (dense < 0).any():
            first = ids[int((dense < 0).argmax())]
            remedy = "Give a user of the training data, or what the user took as a history"
            raise Refused("unknown_user", f"The user {_quoted(first)} is not known to this model", remedy)
        return Who(list(ids), self.model.histories.batch(torch.from_numpy(dense)), [0] * len(ids))

    def _newcomers(self, histories: dict[str, list[Any]]) -> Who:
        unknown = []
        for name, items in histories.items():
            self._limit(len(items), "history", "items in a history")
            dense = self.data.items.encode(items)
            unknown.append(int((dense < 0).sum()))
            if unknown[-1] == len(items):
                told = f"None of the {len(items)} items in the history {_quoted(name)} is known to this model"
                raise Refused("unknown_history", told, "Give at least one item of the training data")
        return Who(list(histories), self.model.users(histories), unknown)

    def _items(self, ids: Sequence[Any], limit: str = "batch") -> Tensor:
        """The dense ids of items."""
        self._limit(len(ids), limit, "items")
        dense = self.data.items.encode(ids)
        if (dense < 0).any():
            first = ids[int((dense < 0).argmax())]
            told = f"The item {_quoted(first)} is not known to this model"
            raise Refused("unknown_item", told, "Give items of the training data")
        return torch.from_numpy(dense)

    def _limit(self, n: int, limit: str, what: str) -> None:
        most = getattr(self.settings, limit)
        if n > most:
            raise Refused("over_limit", f"There are {n:,} {what}, and {most:,} are allowed", "Ask for less at a time")

    def _k(self, k: int | None, usual: int) -> int:
        if k is None:
            return min(usual, self.data.n_items, self.settings.k)
        self._limit(k, "k", "items of a list (k)")
        if k > self.data.n_items:
            told = f"k is {k} and there are {self.data.n_items:,} items"
            raise Refused("over_limit", told, f"Give a k of at most {self.data.n_items}")
        return k

    # Lists

    def recommend(self, bodies: Sequence[schemas.Recommend]) -> list[Answer | Refused]:
        """The lists of several requests with the same options, scored in one call. A wrong one spoils no other."""
        found: list[Answer | Refused] = []
        asks: list[tuple[int, Ask]] = []
        for place, body in enumerate(bodies):
            try:
                asks.append((place, self.ask(body)))
                found.append({})
            except Refused as refused:
                found.append(refused)
        for empty in (False, True):  # one user without a history would keep the others from the fast path
            alike = [(place, ask) for place, ask in asks if ask.empty == empty]
            if alike:
                for (place, _), answer in zip(alike, self._lists([ask for _, ask in alike]), strict=True):
                    found[place] = answer
        return found

    def ask(self, body: schemas.Recommend) -> Ask:
        """Check a request for lists."""
        self.at(body.lam)
        if body.explain is not None:
            self._limit(body.explain, "k", "items of the history to name (explain)")
        for given in (body.allow, body.deny):
            if given is not None:
                self._items(given, "history")
        who = self.who(body)
        if body.explain is not None and body.histories is not None:
            self._limit(max(map(len, body.histories.values())), "explained", "items in a history to explain")
        return Ask(body, who, self._k(body.k, 20))

    def _lists(self, asks: Sequence[Ask]) -> list[Answer | Refused]:
        """The lists of checked requests."""
        body = asks[0].body
        model = self.at(body.lam)
        users = Users.together([ask.who.users for ask in asks])
        where = None if body.where is None else {name: _wanted(value) for name, value in body.where.items()}
        try:
            candidates = Candidates.of(model, list, allow=body.allow, deny=body.deny, where=where)
        except AleatorError as error:  # in where
            return [Refused.by(error) for _ in asks]
        k = max(ask.k for ask in asks)
        found = ranked(model, users, k, candidates, filter_seen=body.filter_seen, explain=body.explain)
        most = np.repeat([ask.k for ask in asks], [len(ask.who.users) for ask in asks])
        shown = found.columns["rank"] <= most[found.place]
        place, item = found.place[shown], found.item[shown]
        columns: dict[str, Any] = as_lists(model, {name: values[shown] for name, values in found.columns.items()})
        if self.held is not None:
            columns |= {"in_test": self.held.among(users.index.numpy()[place], item)}
        rows = self._rows(item, {"expectation": None, "uncertainty": None, "confidence": None} | columns)
        ends = np.searchsorted(place, np.arange(len(users) + 1)).tolist()
        answers: list[Answer | Refused] = []
        first = 0
        for ask in asks:
            lists = []
            for name, unknown in zip(ask.who.names, ask.who.unknown, strict=True):
                lists.append({"user": name, "unknown_items": unknown, "items": rows[ends[first] : ends[first + 1]]})
                first += 1
            answers.append({**self._told(body.lam), "lists": lists})
        return answers

    def _rows(self, item: Array, columns: dict[str, Any]) -> list[Answer]:
        """A dict for each item, of the columns and what is known of the item. A column that is None is None for all."""
        n = len(item)
        values: dict[str, Any] = {"item_id": self.data.items.decode(item).tolist()}
        if self.data.titles is not None:
            values["title"] = picked(self.data.titles, item).tolist()
        values |= {"popularity": self.data.popularity[item].tolist(), "tail": self.tail[item].tolist()}
        for name, column in columns.items():
            values[name] = (
                [None] * n if column is None else column.tolist() if isinstance(column, np.ndarray) else column
            )
        names = tuple(values)
        return [dict(zip(names, row, strict=True)) for row in zip(*values.values(), strict=True)]

    # Scores, similar items, explanations

    def score(self, body: schemas.Score) -> Answer:
        """The scores of items for users, with both parts."""
        model, who, items = self.at(body.lam), self.who(body), self._items(body.items)
        with torch.no_grad():
            scores = model.score_block(who.users, items)
            parts = model.parts(who.users, items) if isinstance(model, AUR) else (None, None)
        table = [scores.double().tolist(), *(None if part is None else part.double().tolist() for part in parts)]
        users = []
        for place, (name, unknown) in enumerate(zip(who.names, who.unknown, strict=True)):
            own = [None if part is None else part[place] for part in table]
            told = dict(zip(("scores", "expectations", "uncertainties"), own, strict=True))
            users.append({"user": name, "unknown_items": unknown, **told})
        return {**self._told(body.lam), "items": body.items, "users": users}

    def similar(self, body: schemas.Similar) -> Answer:
        """The items that are similar to each of some items."""
        model, items, k = self.at(body.lam), self._items(body.items), self._k(body.k, 10)
        found = similar_columns(model, self._moments_at(body.lam), torch.unique(items), k)
        near = self.data.items.encode(found["similar_item"])
        rows = self._rows(near, {"rank": found["rank"], "similarity": found["similarity"]})
        of = self.data.items.encode(found["item_id"])
        lists = []
        for id, dense in zip(body.items, items.tolist(), strict=True):
            own = [rows[place] for place in np.flatnonzero(of == dense).tolist()]
            lists.append({"item_id": id, **self._title(dense), "items": own})
        return {**self._told(body.lam), "lists": lists}

    def _moments_at(self, lam: float | None) -> Moments:
        """The moments that similar items come from, kept for the last lam: they take seconds."""
        lam = self.lam if lam is None else lam
        if self._moments is None or self._moments[0] != lam:
            self._moments = None
            self._moments = lam, moments(self.at(lam).without_prior())
        return self._moments[1]

    def explain(self, body: schemas.Explain) -> Answer:
        """What the history of a user adds to the scores of items."""
        model, who, items = self.at(body.lam), self.one(body), self._items(body.items)
        if body.history is not None:
            self._limit(len(body.history), "explained", "items in a history to explain")
        found = explained_columns(model, who.users, self.data.items.decode(torch.unique(items)), body.n)
        of, cause = (self.data.items.encode(found[name]) for name in ("item_id", "history_item"))
        names = ("adds_to_expectation", "adds_to_uncertainty", "adds_to_score", "share")
        columns = {name: found[name].tolist() for name in names if name in found}
        told = []
        for id, dense in zip(body.items, items.tolist(), strict=True):
            own = np.flatnonzero(of == dense).tolist()
            reasons = [
                {"item_id": self._id(int(cause[row])), **self._title(int(cause[row]))}
                | {name: values[row] for name, values in columns.items()}
                for row in own
            ]
            rest, exact = (float(found["rest"][own[0]]), bool(found["exact"][own[0]])) if own else (None, None)
            told.append({"item_id": id, **self._title(dense), "rest": rest, "exact": exact, "contributions": reasons})
        return {**self._told(body.lam), "user": who.names[0], "unknown_items": who.unknown[0], "items": told}

    # The page

    def map(self, body: schemas.Map) -> Answer:
        """A sample of the candidates of a user: always the best by expectation and by the blend."""
        limit = min(1000, self.settings.points) if body.limit is None else body.limit
        self._limit(limit, "points", "points")
        model, who = self.at(body.lam), self.one(body)
        with torch.no_grad():
            blend = model.score_block(who.users)
            parts = model.parts(who.users) if isinstance(model, AUR) else (blend, None)
            best = [self._best(part, who.users) for part in (blend, parts[0])]
        candidates = np.ones(self.data.n_items, bool)
        candidates[self.data.popularity == 0] = False
        candidates[who.users.item.numpy()] = False
        best_items = np.unique(np.concatenate(best))
        candidates[best_items] = False
        others = np.flatnonzero(candidates)
        room = min(max(limit - len(best_items), 0), len(others))
        drawn = np.random.default_rng(0).permutation(self.data.n_items)  # the same items for every user and lam
        chosen = np.sort(np.r_[best_items, drawn[candidates[drawn]][:room]])
        expectation, uncertainty = (None if part is None else part[0, chosen].double().numpy() for part in parts)
        if not isinstance(model, AUR):
            expectation = None
        points = self._rows(chosen, {"expectation": expectation, "uncertainty": uncertainty})
        return {**self._told(body.lam), "unknown_items": who.unknown[0], "points": points}

    def _best(self, scores: Tensor, users: Users) -> Array:
        """The dense ids of the best candidates of one user."""
        scores = scores.masked_fill(torch.from_numpy(self.data.popularity == 0), -torch.inf)
        hide(scores, users)
        found = top_k(scores, _TOP)[1][0]
        return np.asarray(found[found >= 0].numpy())

    def find_users(self, query: str, limit: int) -> Answer:
        """Users whose id begins with a text or holds it. Without a text, some users with a history."""
        size = np.diff(self.data.csr.indptr)
        if query:
            found = _matching(self.user_texts, query)[:limit]
        else:
            some = np.flatnonzero(size)
            found = np.sort(np.random.default_rng(0).permutation(some)[:limit])
        ids = self.data.users.decode(found).tolist()
        users = [{"user_id": id, "n_items": n} for id, n in zip(ids, size[found].tolist(), strict=True)]
        return {"users": users}

    def find_items(self, query: str, limit: int) -> Answer:
        """Items whose title or id begins with a text or holds it, the popular ones first."""
        popular = np.argsort(-self.data.popularity, kind="stable")
        if query:
            found = [_matching(texts, query) for texts in self.item_texts]
            first = np.concatenate(found)
            found_once = first[np.sort(np.unique(first, return_index=True)[1])]
        else:
            found_once = popular
        return {"items": self._rows(found_once[:limit], {})}

    def user(self, text: str) -> Answer:
        """What a known user took: in the training data, and in the test part."""
        id = self.data.users.parse(text)
        who = self._known([id])
        index = int(who.users.index[0])
        test = None if self.held is None else self._rows(self.held.of(index)[:_SHOWN], {})
        history = self._rows(who.users.item[:_SHOWN].numpy(), {})
        known = self.data.users.decode([index]).tolist()[0]
        return {"user_id": known, "n_items": len(who.users.item), "history": history, "test": test}

    @cached_property
    def user_texts(self) -> Array:
        """The ids of users as texts to search in."""
        return _texts(self.data.users)

    @cached_property
    def item_texts(self) -> list[Array]:
        """The titles and the ids of items as texts to search in."""
        titles = [] if self.data.titles is None else [_lower(self.data.titles)]
        return [*titles, _texts(self.data.items)]

    def _id(self, dense: int) -> Any:
        return self.data.items.decode([dense]).tolist()[0]

    def _title(self, dense: int) -> Answer:
        return {} if self.data.titles is None else {"title": str(self.data.titles[dense])}


def _choice(aur: AUR) -> Answer | None:
    """How lam was chosen."""
    choice = aur.choice
    if choice is None:
        return None

    def point(of: Any) -> Answer:
        return {"lam": of.lam, "recall@20": of.recall, "ndcg@20": of.ndcg, "tail_recall@50": of.tail}

    return {
        "lam": choice.lam,
        "discount": choice.discount,
        "users": choice.users,
        "select": choice.select,
        "why": choice.why,
        "curve": [point(each) for each in choice.curve],
        "bare": point(choice.bare),
    }


def _wanted(value: Any) -> Any:
    """A filter as the library takes it: a range is a pair."""
    return (value.low, value.high) if isinstance(value, schemas.Range) else value


def _quoted(id: Any) -> str:
    """An id of a request in a message, cut where it is long."""
    text = repr(id)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _texts(vocabulary: Vocabulary) -> Array:
    ids = vocabulary.decode(np.arange(len(vocabulary)))
    return _lower(np.array([str(id) for id in ids.tolist()], np.dtypes.StringDType()))


def _lower(texts: Array) -> Array:
    return np.array([text.casefold() for text in texts.tolist()], np.dtypes.StringDType())


def _matching(texts: Array, query: str) -> Array:
    """The places of texts that begin with a text, and then of those that hold it elsewhere."""
    wanted = query.casefold()
    at = np.strings.find(texts, wanted)
    return np.concatenate([np.flatnonzero(at == 0), np.flatnonzero(at > 0)])
