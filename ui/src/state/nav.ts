// The figures beside the names of the pages, and how many workers are alive.
import { signal } from '@preact/signals';
import { ask } from '../api/client';
import type { Overview } from '../api/types';
import { count } from '../time';

export const nav = signal<Partial<Record<'runs' | 'workflows' | 'batches' | 'workers' | 'queues' | 'limits' | 'schedules', string>>>({});

export const counted = signal<Overview | null>(null);

/** Counts anew: the server keeps the answer for all pages. */
export async function countAll(): Promise<void> {
  if (document.hidden) return;
  const found = await ask<Overview>('overview');
  counted.value = found;
  const figures = Object.entries(found).map(([name, value]) => [name, count(value)]);
  nav.value = { ...nav.value, ...Object.fromEntries(figures) };
}
