// The sign of a status: a shape of its own for each, so that colour never speaks alone.
import type { Status } from '../api/types';

const SHAPES: Record<string, string> = {
  running: 'M5.4 4.2v5.6L10 7z',
  completed: 'M4.2 7.3 6.2 9.3 9.9 4.9',
  failed: 'M4.7 4.7l4.6 4.6M9.3 4.7 4.7 9.3',
  paused: 'M5.4 4.6v4.8M8.6 4.6v4.8',
  pending: 'M7 4.4V7l1.8 1.2',
  cancelled: 'M4.4 9.6 9.6 4.4',
};

/** The sign of Holdfast. */
export function Sign({ size }: { size: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 18 18" aria-hidden="true">
      <path d="M9 2v7M5 7c0 5 2 8 4 9 2-1 4-4 4-9M2.5 9.5C4 9 5 8 5 7M15.5 9.5C14 9 13 8 13 7" fill="none" stroke="var(--accent)" stroke-width="1.8" stroke-linecap="round" />
    </svg>
  );
}

export function Mark({ status, size = 14 }: { status: string; size?: number }) {
  return (
    <svg class={`mark is-${status}`} width={size} height={size} viewBox="0 0 14 14" aria-hidden="true">
      <circle cx="7" cy="7" r="6.1" fill="none" stroke="currentColor" stroke-width="1.5" stroke-dasharray={status === 'pending' ? '2.4 1.6' : undefined} />
      <path d={SHAPES[status] ?? 'M7 5v4'} fill={status === 'running' ? 'currentColor' : 'none'} stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}

export function Pill({ status, children }: { status: Status | string; children?: string }) {
  return (
    <span class={`pill is-${status}`}>
      <Mark status={status} size={13} />
      {children ?? status}
    </span>
  );
}
