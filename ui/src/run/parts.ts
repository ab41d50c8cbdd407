// Parts of a stream, as they are read: what one attempt sent together is one block. Pure.
import type { Entry, StreamPart } from '../api/types';

export type PartState = StreamPart['state'];

export interface Block {
  step: string;
  attempt: number;
  state: PartState;
  first: number;
  last: number;
  /** Texts that belong together are one; each of the rest is JSON on a line of its own. */
  text: string;
}

/** How an attempt of a step ended, by step and attempt. A part that was read while it ran does not know it yet. */
export function endsOf(timeline: readonly Entry[]): Map<string, PartState> {
  const found = new Map<string, PartState>();
  for (const entry of timeline) {
    if (entry.kind !== 'step' || !entry.key || !entry.outcome || entry.outcome === 'open' || entry.outcome === 'not begun') continue;
    found.set(`${entry.attempt ?? 1} ${entry.key}`, entry.outcome === 'completed' ? 'completed' : 'superseded');
  }
  return found;
}

export function blocksOf(parts: readonly StreamPart[], ends: ReadonlyMap<string, PartState>): Block[] {
  const newest = new Map<string, number>();
  for (const part of parts) newest.set(part.step, Math.max(part.attempt, newest.get(part.step) ?? 0));
  const blocks: Block[] = [];
  let isText = false;
  for (const part of parts) {
    const known = ends.get(`${part.attempt} ${part.step}`) ?? (part.attempt < newest.get(part.step)! ? 'superseded' : 'open');
    const state = part.state === 'open' ? known : part.state;
    const last = blocks.at(-1);
    const fits = last && last.step === part.step && last.attempt === part.attempt && last.state === state;
    const said = typeof part.value === 'string' ? part.value : JSON.stringify(part.value);
    if (fits) {
      last.text += isText && typeof part.value === 'string' ? said : `\n${said}`;
      last.last = part.offset;
    } else blocks.push({ step: part.step, attempt: part.attempt, state, first: part.offset, last: part.offset, text: said });
    isText = typeof part.value === 'string';
  }
  return blocks;
}
