// One way to ask the API. What it refuses becomes a Problem, whose text says what happened and what to do.
import { signal } from '@preact/signals';

export class Problem extends Error {
  constructor(readonly status: number, readonly title: string, readonly detail: string) {
    super(detail || title);
  }

  /** Whether the server, or what lies before or behind it, is away for now: the same question may be answered later. */
  get isAway(): boolean {
    return [0, 502, 503, 504].includes(this.status);
  }
}

/** Where the page is mounted: index.html lies at its top. */
export const base = new URL('.', document.baseURI).pathname;

/** Set when the API says that nobody is signed in. */
export const signedOut = signal(false);

/** Milliseconds the store's clock is ahead of ours. */
export const ahead = signal(0);

export async function ask<T>(path: string, options: { query?: URLSearchParams; method?: string; body?: unknown; signal?: AbortSignal } = {}): Promise<T> {
  const response = await call(path, options);
  if (response.status === 204) return undefined as T;
  return (await response.json()) as T;
}

export async function call(path: string, options: { query?: URLSearchParams; method?: string; body?: unknown; signal?: AbortSignal; headers?: Record<string, string> } = {}): Promise<Response> {
  const query = options.query?.toString();
  const headers: Record<string, string> = { accept: 'application/json', ...options.headers };
  const init: RequestInit = { method: options.method ?? 'GET', headers, credentials: 'same-origin', signal: options.signal ?? null };
  if (options.body !== undefined) {
    headers['content-type'] = 'application/json';
    init.body = JSON.stringify(options.body);
  }
  let response: Response;
  try {
    response = await fetch(`${base}api/v1/${path}${query ? `?${query}` : ''}`, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new Problem(0, 'The server does not answer', 'The server does not answer. Is `holdfast dev` or `holdfast dashboard` still running?');
  }
  if (response.ok) return response;
  if (response.status === 401) signedOut.value = true;
  throw await problemOf(response);
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    const found = (await response.json()) as { title?: string; detail?: string; hint?: string };
    const detail = [found.detail, found.hint].filter(Boolean).join(' ');
    return new Problem(response.status, found.title ?? response.statusText, detail);
  } catch {
    return new Problem(response.status, `The server answered ${response.status}`, response.statusText);
  }
}

/** Takes over the store's clock, unless the difference is no more than the way of an answer. */
export function noteClock(now: string): void {
  const difference = Date.parse(now) - Date.now();
  ahead.value = Math.abs(difference) > 500 ? difference : 0;
}

/** The address of something of a run. The id stands in the query: some proxies decode a "/" in a path. */
export const ofRun = (id: string, what = '', more: Record<string, string> = {}): [string, URLSearchParams] => [
  what ? `run/${what}` : 'run',
  new URLSearchParams({ id, ...more }),
];
