// Boxes in layers and the ways between them, for graphs people can read. Pure arithmetic.

export interface Node {
  name: string;
  width: number;
}

export interface Placed extends Node {
  x: number;
  y: number;
  layer: number;
}

export interface Way {
  from: string;
  to: string;
  path: string;
  isBack: boolean;
}

export interface Layout {
  nodes: Map<string, Placed>;
  ways: Way[];
  width: number;
  height: number;
}

export const HEIGHT = 44;
const GAP = 46;
const SIDE = 30;
const MARGIN = 16;
const LANE = 14;

export function layOut(nodes: readonly Node[], edges: readonly (readonly [string, string])[]): Layout {
  const names = new Set(nodes.map((node) => node.name));
  const known = edges.filter(([a, b]) => names.has(a) && names.has(b));
  const forward = acyclic(nodes.map((node) => node.name), known);
  const depth = depths(nodes.map((node) => node.name), forward);
  const layers: Placed[][] = [];
  for (const node of nodes) {
    const layer = depth.get(node.name)!;
    (layers[layer] ??= []).push({ ...node, x: 0, y: MARGIN + layer * (HEIGHT + GAP), layer });
  }
  order(layers, forward);
  const inner = Math.max(...layers.map((layer) => layer.reduce((sum, node) => sum + node.width + SIDE, -SIDE)), 60);
  const placed = new Map<string, Placed>();
  for (const layer of layers) {
    let x = MARGIN + (inner - layer.reduce((sum, node) => sum + node.width + SIDE, -SIDE)) / 2;
    for (const node of layer) {
      node.x = x + node.width / 2;
      x += node.width + SIDE;
      placed.set(node.name, node);
    }
  }
  const keys = new Set(forward.map(([a, b]) => `${a}\0${b}`));
  let lanes = 0;
  const ways = known.map(([from, to]): Way => {
    const [a, b] = [placed.get(from)!, placed.get(to)!];
    if (keys.has(`${from}\0${to}`)) return { from, to, path: down(a, b), isBack: false };
    lanes += 1;
    const x = MARGIN + inner + lanes * LANE;
    return { from, to, path: around(a, b, x), isBack: true };
  });
  return { nodes: placed, ways, width: inner + 2 * MARGIN + lanes * LANE, height: 2 * MARGIN + layers.length * (HEIGHT + GAP) - GAP };
}

function down(a: Placed, b: Placed): string {
  const [y1, y2] = [a.y + HEIGHT, b.y - 2];
  const bend = Math.max(18, (y2 - y1) * 0.45);
  return `M${a.x} ${y1}C${a.x} ${y1 + bend} ${b.x} ${y2 - bend} ${b.x} ${y2}`;
}

/** A way back, or to itself: around the right side. */
function around(a: Placed, b: Placed, x: number): string {
  const [x1, y1, x2, y2] = [a.x + a.width / 2, a.y + HEIGHT * 0.65, b.x + b.width / 2 + 2, b.y + HEIGHT * 0.35];
  return `M${x1} ${y1}C${x} ${y1} ${x} ${y1} ${x} ${(y1 + y2) / 2}S${x} ${y2} ${x2} ${y2}`;
}

/** The edges without those that lead back to where one came from. */
function acyclic(names: readonly string[], edges: readonly (readonly [string, string])[]): (readonly [string, string])[] {
  const targets = new Map<string, string[]>();
  for (const [a, b] of edges) targets.set(a, [...(targets.get(a) ?? []), b]);
  const state = new Map<string, 'open' | 'done'>();
  const kept: (readonly [string, string])[] = [];
  const visit = (name: string): void => {
    state.set(name, 'open');
    for (const target of targets.get(name) ?? []) {
      if (state.get(target) === 'open') continue;
      kept.push([name, target]);
      if (!state.has(target)) visit(target);
    }
    state.set(name, 'done');
  };
  const entered = new Set(edges.map(([, b]) => b));
  for (const name of [...names.filter((one) => !entered.has(one)), ...names]) if (!state.has(name)) visit(name);
  return kept;
}

/** The longest way to each. */
function depths(names: readonly string[], edges: readonly (readonly [string, string])[]): Map<string, number> {
  const depth = new Map(names.map((name) => [name, 0]));
  for (let round = 0; round < names.length; round++) {
    let isSettled = true;
    for (const [a, b] of edges)
      if (depth.get(b)! < depth.get(a)! + 1) {
        depth.set(b, depth.get(a)! + 1);
        isSettled = false;
      }
    if (isSettled) break;
  }
  return depth;
}

/** Each layer by the middle of what leads to it, a few times. */
function order(layers: Placed[][], edges: readonly (readonly [string, string])[]): void {
  for (let round = 0; round < 4; round++)
    for (const [index, layer] of layers.entries()) {
      if (!index) continue;
      const place = new Map(layers[index - 1]!.map((node, at) => [node.name, at]));
      const weight = (node: Placed) => {
        const found = edges.filter(([a, b]) => b === node.name && place.has(a)).map(([a]) => place.get(a)!);
        return found.length ? found.reduce((sum, at) => sum + at, 0) / found.length : layer.indexOf(node);
      };
      const weights = new Map(layer.map((node) => [node, weight(node)]));
      layer.sort((a, b) => weights.get(a)! - weights.get(b)!);
    }
}
