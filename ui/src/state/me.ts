// Who is signed in, and what they may do.
import { signal } from '@preact/signals';
import { ask, noteClock, signedOut } from '../api/client';
import type { Me, Verb } from '../api/types';

export const me = signal<Me | null>(null);
export const can = (verb: Verb): boolean => me.value?.can.includes(verb) ?? false;

export async function signIn(credential: { token: string } | { code: string }): Promise<void> {
  welcome(await ask<Me>('session', { method: 'POST', body: credential }));
}

export async function findMe(): Promise<void> {
  welcome(await ask<Me>('session'));
}

export async function signOut(): Promise<void> {
  await ask<void>('session', { method: 'DELETE' });
  me.value = null;
  signedOut.value = true;
}

function welcome(found: Me): void {
  noteClock(found.now);
  me.value = found;
  signedOut.value = false;
}
