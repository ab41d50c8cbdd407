// The rows of the list: pages loaded as they are needed, and what the stream says put in its place.
import { signal } from '@preact/signals';
import { ask, Problem } from '../api/client';
import { follow, type Stream } from '../api/sse';
import type { Run, RunList } from '../api/types';
import { connected, disconnected } from '../state/connection';
import { signedOut } from '../api/client';

const PAGE = 500;
const FIRST = 100;
/** Milliseconds until a list that missed too much is loaded again. */
const BETWEEN = 1000;
/** Runs that a search looks at before it stops without a result. */
const ASKED_ON = 5000;
/** Rows kept at most: who looks for older ones narrows the filter. */
export const MOST = 100_000;

interface News {
  seq: string;
  runs: Run[];
  gone?: string[];
}

export class LiveList {
  readonly rows = signal<readonly Run[]>([]);
  readonly hasLoaded = signal(false);
  readonly isAtEnd = signal(false);
  readonly problem = signal<Problem | null>(null);
  /** Ids that arrived while the reader watches, for a moment. */
  readonly fresh = new Set<string>();
  /** Counts every message: counts and histogram are asked for again after it. */
  readonly changes = signal(0);
  /** Runs that were looked at; more than are shown while errors are searched. */
  readonly looked = signal(0);

  #next = '';
  #seq = '';
  #isLoading = false;
  /** What the stream said while an answer was on its way, which may be older. */
  #held: News[] = [];
  #loads = 0;
  #places = new Map<string, number>();
  #stream: Stream | null = null;
  #controller = new AbortController();
  #again = 0;

  constructor(readonly filter: URLSearchParams) {
    void this.#begin();
  }

  close(): void {
    this.#controller.abort();
    window.clearTimeout(this.#again);
    this.#stream?.close();
  }

  async more(): Promise<void> {
    if (this.#isLoading || this.isAtEnd.value || !this.#next) return;
    if (this.rows.value.length >= MOST) {
      this.isAtEnd.value = true;
      return;
    }
    this.#isLoading = true;
    try {
      await this.#take(this.#found(this.#next, PAGE), (page) => {
        const fresh = page.runs.filter((run) => !this.#places.has(run.id));
        const start = this.rows.value.length;
        fresh.forEach((run, place) => this.#places.set(run.id, start + place));
        this.rows.value = [...this.rows.value, ...fresh];
      });
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#isLoading = false;
    }
  }

  get hasMore(): boolean {
    return this.#next !== '';
  }

  async #begin(): Promise<void> {
    try {
      const seq = await this.#first();
      const query = new URLSearchParams(this.filter);
      query.set('after', seq);
      this.#stream = follow('runs/events', query, {
        opened: connected,
        lost: (problem) => disconnected(problem),
        message: ({ event, data }) => this.#hear(event, data),
      });
    } catch (error) {
      this.#fail(error);
    }
  }

  async #first(): Promise<string> {
    this.looked.value = 0;
    const page = await this.#take(this.#found('', FIRST), ({ runs }) => this.#replace(runs));
    this.hasLoaded.value = true;
    this.problem.value = null;
    this.#seq = page.seq;
    return page.seq;
  }

  /** Shows an answer once it is here, and on top of it again what the stream said meanwhile. */
  async #take(coming: Promise<RunList>, show: (page: RunList) => void): Promise<RunList> {
    this.#loads++;
    try {
      const page = await coming;
      this.#next = page.next;
      show(page);
      this.isAtEnd.value = !page.next;
      for (const { runs, gone = [] } of this.#held) this.#merge(runs, gone);
      return page;
    } finally {
      if (!--this.#loads) this.#held = [];
    }
  }

  /** The next page that has runs. A search may give empty ones: it is asked on for a while, then the reader decides. */
  async #found(after: string, limit: number): Promise<RunList> {
    const until = this.looked.value + ASKED_ON;
    for (let next = after; ; ) {
      const page = await this.#load(next, limit);
      this.looked.value += page.looked_at;
      if (page.runs.length || !page.next || this.looked.value >= until) return page;
      next = page.next;
    }
  }

  #load(after: string, limit: number): Promise<RunList> {
    const query = new URLSearchParams(this.filter);
    query.set('limit', String(limit));
    if (after) query.set('after', after);
    return ask<RunList>('runs', { query, signal: this.#controller.signal });
  }

  #fail(error: unknown): void {
    if (error instanceof Problem) this.problem.value = error;
    else if (!(error instanceof DOMException)) throw error;
    this.hasLoaded.value = true;
  }

  #hear(event: string, data: string): void {
    if (event === 'runs') {
      const news = JSON.parse(data) as News;
      this.#merge(news.runs, news.gone ?? []);
      if (this.#loads) this.#held.push(news);
      this.#seq = news.seq;
      this.changes.value++;
    } else if (event === 'reset' || (event === 'hello' && (JSON.parse(data) as { seq: string }).seq !== this.#seq)) {
      // Too much happened, or the stream begins elsewhere than the list ended. A busy store says so again and again.
      this.#again ||= window.setTimeout(() => {
        this.#again = 0;
        this.changes.value++;
        void this.#first().catch((error) => this.#fail(error));
      }, event === 'reset' ? BETWEEN : 0);
    } else if (event === 'bye' && (JSON.parse(data) as { reason: string }).reason === 'revoked') {
      this.close();
      signedOut.value = true;
    }
  }

  #merge(runs: readonly Run[], gone: readonly string[]): void {
    const rows = [...this.rows.value];
    const arrived: Run[] = [];
    const oldest = rows.at(-1)?.created_at ?? '';
    for (const run of runs) {
      const place = this.#places.get(run.id);
      if (place !== undefined) rows[place] = run;
      else if (this.isAtEnd.value || run.created_at > oldest) arrived.push(run);
    }
    if (!arrived.length && !gone.length) {
      this.rows.value = rows; // the places stay
      return;
    }
    const left = new Set(gone);
    for (const run of arrived) this.#welcome(run.id);
    const all = [...arrived, ...rows].filter((run) => !left.has(run.id));
    if (arrived.length) all.sort((a, b) => (a.created_at < b.created_at ? 1 : a.created_at > b.created_at ? -1 : 0));
    this.#replace(all);
  }

  #welcome(id: string): void {
    this.fresh.add(id);
    window.setTimeout(() => this.fresh.delete(id), 1500);
  }

  #replace(rows: readonly Run[]): void {
    this.#places = new Map(rows.map((run, place) => [run.id, place]));
    this.rows.value = rows;
  }
}
