// What a run does now, in words. The same sentences as holdfast.core.doing.describe, at this moment: a test compares them.
import type { Doing, Occupation } from './api/types';
import { instant, left } from './time';

/** A child is awaited for a year unless its author says otherwise: a time so far away is not said. */
export const FAR = 300 * 86_400_000;

export function sentence(doing: Doing, now: number): string {
  const parts = doing.now.map((one) => phrase(one, now));
  if (doing.more) parts.push(`and ${doing.more} more`);
  return parts.join('; ');
}

export function phrase(o: Occupation, now: number): string {
  const until = instant(o.until);
  const rest = until === null ? '' : `, ${left(until, now)} left`;
  const of = o.of ? ` of ${o.of}` : '';
  const attempt = o.attempt ?? 0;
  const why = o.detail ? `: ${o.detail}` : '';
  switch (o.kind) {
    case 'step':
      return `step ${o.name}${attempt > 1 ? `, attempt ${attempt}${of}` : ''}${o.detail ? `, ${o.detail}` : ''}`;
    case 'retry':
      return `step ${o.name} failed, retrying ${when(until, now)}, attempt ${attempt + 1}${of}${why}`;
    case 'sleep':
      return `sleeping until ${clockUtc(until, now)}${rest}`;
    case 'signal':
    case 'topic':
    case 'update':
      return `waiting for ${o.kind} ${o.name}${rest}`;
    case 'child':
      return `waiting for child ${o.name} (${o.detail ?? ''})${until !== null && until - now > FAR ? '' : rest}`;
    case 'start':
      if (o.detail) return `begins after the end of run ${o.detail}`;
      return until !== null && until > now ? `starts ${when(until, now)}` : 'waiting for a worker';
    case 'pass':
      return `failed, pass ${attempt}${of} begins ${when(until, now)}${why}`;
    case 'paused':
      return `paused (${o.name})${why}`;
    case 'cancelling':
      return `cleaning up after a cancel${o.name ? ` (${o.name})` : ''}${rest}`;
    case 'idle':
      return `waiting for a timeout of its own${until === null ? '' : `, or for its deadline${rest}; nothing else can wake it`}`;
    case 'overdue':
      return `cleaning up after its deadline${rest}`;
    default:
      return `${o.kind} ${o.name}${rest}${why}`;
  }
}

const when = (until: number | null, now: number) => (until === null || until <= now ? 'now' : `in ${left(until, now)}`);

function clockUtc(until: number | null, now: number): string {
  if (until === null) return 'woken';
  const text = new Date(until).toISOString();
  const day = text.slice(0, 10) === new Date(now).toISOString().slice(0, 10) ? '' : `${text.slice(0, 10)} `;
  return `${day}${text.slice(11, 19)}`.replace(/:00$/, '') + ' UTC';
}
