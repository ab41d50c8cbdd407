import type { Graph } from '../api/types';
import { Picture, type Box } from '../graph/picture';
import { hrefWith, parameter } from '../state/route';

const STATUS: Record<string, string> = { completed: 'completed', failed: 'failed', open: 'running', waiting: 'pending', 'not reached': 'untouched' };

export function RunGraph({ graph }: { graph: Graph }) {
  const chosen = parameter('step');
  const isMachine = graph.kind === 'machine';
  const boxes = graph.nodes.map(
    (node): Box => ({
      name: node.name,
      note: `${node.state === 'open' ? (isMachine ? 'is here' : 'running') : node.state}${node.visits > 1 ? `, ${node.visits} times` : ''}`,
      status: STATUS[node.state] ?? 'untouched',
      href: node.key ? hrefWith({ step: node.key }) : undefined,
      isChosen: node.key !== null && node.key === chosen,
    }),
  );
  const edges = graph.nodes.flatMap((node) => (isMachine ? node.leads_to.map((to) => [node.name, to] as const) : node.needs.map((from) => [from, node.name] as const)));
  return <Picture boxes={boxes} edges={edges} taken={taken(graph)} label={isMachine ? 'states and the path taken' : 'steps of the flow'} />;
}

/** The edges that were gone along: a machine's path, or a flow's completed dependencies. */
function taken(graph: Graph): ReadonlySet<string> {
  if (graph.kind === 'machine') return new Set(graph.path.slice(1).map((name, index) => `${graph.path[index]}\0${name}`));
  const reached = new Set(graph.nodes.filter((node) => node.state !== 'not reached' && node.state !== 'waiting').map((node) => node.name));
  const done = new Set(graph.nodes.filter((node) => node.state === 'completed').map((node) => node.name));
  return new Set(graph.nodes.flatMap((node) => node.needs.filter((from) => done.has(from) && reached.has(node.name)).map((from) => `${from}\0${node.name}`)));
}
