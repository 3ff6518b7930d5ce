"""`hami bench --tune`: find the nodes whose settings count, let the tuner measure, print what it proposes."""

from __future__ import annotations

import os
from pathlib import Path

from ...bench.load import Load
from ...bench.reasons import explain, toml_lines
from ...bench.results import Results
from ...bench.summary import notes, results_table
from ...bench.sweep import known_node
from ...bench.toml_edit import edited, read_text, tuned_path
from ...bench.tuner import Goal, Proposal, TunedNode, Tuner
from ...config import Config
from ...errors import ConfigError
from ...plan import Plan, plan
from ..source import write_text
from .arguments import TUNED_CALLERS, Arguments
from .measure import FAILED, INTERRUPTED, OK, campaign_of
from .screen import Screen


class Tuning:
    """One run of the tuner on the pipeline of the command line."""

    def __init__(self, arguments: Arguments, screen: Screen) -> None:
        self.arguments = arguments
        self.screen = screen

    def run(self) -> int:
        """Measure, print the proposal, write it if asked to, and return the exit status."""
        arguments = self.arguments
        goal = Goal(arguments.latency_target(), arguments.percentile_name(), self._load())
        written = self._written_path() if arguments.writes else None
        config = arguments.config()
        nodes = tuned_nodes(config, plan(config), arguments.nodes)
        campaign = campaign_of(arguments, config, self.screen)
        cores = len(os.sched_getaffinity(0))
        proposal = Tuner(campaign.run, goal, nodes, cores, arguments.repeats).run()
        if proposal is None:
            self.screen.show("interrupted before anything was measured")
            return INTERRUPTED
        self._show(proposal, cores)
        if written is not None:
            self._write(written, proposal)
        if not proposal.is_complete:
            return INTERRUPTED
        return OK if proposal.is_met else FAILED

    def _load(self) -> Load:
        loads = self.arguments.loads(TUNED_CALLERS)
        if len(loads) != 1:
            raise ConfigError(
                f"`--tune` is for one load, and there are {len(loads)}",
                code="bench-options",
                where="hami bench",
                help="give one number to `-c` or to `--rate`",
            )
        return loads[0]

    def _written_path(self) -> Path:
        """Return the file that will be written, which must not exist: somebody may have changed it."""
        source = Path(self.arguments.file)
        if not source.is_file():
            message = "`--write` writes a file beside FILE, which is an expression"
            raise ConfigError(message, code="bench-options", where="hami bench", help="put it into a file")
        path = tuned_path(source)
        if path.exists():
            raise ConfigError(
                "the file of an earlier proposal is still there",
                code="cli-unwritable-file",
                where=str(path),
                help="move it away, or remove it",
            )
        return path

    def _show(self, proposal: Proposal, cores: int) -> None:
        for step in proposal.steps:
            if step.tried:
                self.screen.show(f"measured for `{step.node}`, in turn:")
                self.screen.show(results_table(step.tried))
        for sentence in explain(proposal, cores):
            self.screen.show(sentence)
        measured = [case for step in proposal.steps for case in step.tried] or [proposal.baseline]
        for note in notes(Results("", tuple(measured), is_complete=proposal.is_complete)):
            self.screen.show(note)
        if proposal.changes:
            self.screen.show(f"\n{toml_lines(proposal.changes)}")

    def _write(self, path: Path, proposal: Proposal) -> None:
        if not proposal.changes or not proposal.is_met:
            why = "it does not meet the target" if proposal.changes else "there is nothing to change"
            self.screen.show(f"\n{path} is not written: {why}")
            return
        source = Path(self.arguments.file)
        write_text(path, edited(read_text(source), proposal.changes, str(source)))
        self.screen.show(f"\nwritten: {path}")


def tuned_nodes(config: Config, checked: Plan, names: tuple[str, ...]) -> list[TunedNode]:
    """Return the nodes whose sizes can be chosen, or those of `names` alone.

    Nodes with a `node_entrypoint` of their own and operators are left out: nobody knows what `max` and
    `instance_num` mean there. Raises ConfigError for a name that is none of them.
    """
    by_name = {node.name: node for node in checked.nodes if not node.is_operator}
    found = []
    for node in config.nodes:
        planned = by_name.get(node.name)
        is_cut = f"{node.name}#2" in by_name
        if planned is None or is_cut or "node_entrypoint" in planned.params:
            continue
        params = planned.params
        found.append(
            TunedNode(
                node.name, params.get("max"), params.get("instance_num", 1), params.get("batching_timeout")
            )
        )
    if not names:
        return found
    wanted = [known_node(config, name, "--node") for name in names]
    chosen = [node for node in found if node.name in wanted]
    for name in wanted:
        if name not in {node.name for node in chosen}:
            raise ConfigError(
                f"the sizes of node `{name}` cannot be chosen: it directs the graph or is built its own way",
                code="bench-unknown-node",
                where="--node",
                help="name a node that computes",
            )
    return chosen
