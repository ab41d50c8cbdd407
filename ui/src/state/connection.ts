// Whether what is on the screen is live, and if not, since when.
import { signal } from '@preact/signals';
import { Problem } from '../api/client';

export interface Connection {
  state: 'connecting' | 'live' | 'lost' | 'over';
  since: number;
  why: string;
}

export const connection = signal<Connection>({ state: 'connecting', since: Date.now(), why: '' });

export function connected(): void {
  if (connection.value.state !== 'live') connection.value = { state: 'live', since: Date.now(), why: '' };
}

export function disconnected(problem: Problem): void {
  if (connection.value.state !== 'lost') connection.value = { state: 'lost', since: Date.now(), why: problem.message };
}

export function over(): void {
  connection.value = { state: 'over', since: Date.now(), why: '' };
}
