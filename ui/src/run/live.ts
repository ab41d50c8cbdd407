// One run, live: its story as loaded, then every turn as it is written. Nothing is shown twice and nothing is missed.
import { signal } from '@preact/signals';
import { ask, ofRun, Problem, signedOut } from '../api/client';
import { follow, type Stream } from '../api/sse';
import { isOpen, type Entry, type Graph, type JournalEvent, type LiveTurn, type Story, type Turn } from '../api/types';
import { connected, disconnected, over } from '../state/connection';

const PAGE = 1000;

/** Milliseconds until a run that is not there is looked for again: more each time, at most this. */
const LONGEST = 30_000;

/** Events after which more than the timeline differs: who holds the run, its children, its end. */
const TELLING = new Set(['claimed', 'released', 'child', 'child_ended', 'exposed', 'paused', 'resumed', 'completed', 'failed', 'cancelled', 'continued', 'compacted', 'adopted']);

export class LiveRun {
  readonly story = signal<Story | null>(null);
  readonly journal = signal<readonly JournalEvent[]>([]);
  readonly graph = signal<Graph | null>(null);
  readonly problem = signal<Problem | null>(null);
  /** Counts the turns that came in live: what was loaded for one step is loaded again. */
  readonly turns = signal(0);

  #stream: Stream | null = null;
  #seen = new Set<string>();
  #next = '';
  #isJournalWhole = false;
  #isLoading = false;
  /** Turns that came in while a page of the journal was on its way: the answer may be older. */
  #held: Turn[] = [];
  #timer = 0;
  #children = 0;
  #patience = 700;
  #controller = new AbortController();

  constructor(readonly id: string) {
    void this.#begin();
  }

  close(): void {
    this.#controller.abort();
    this.#stream?.close();
    window.clearTimeout(this.#timer);
    window.clearInterval(this.#children);
  }

  /** The next page of the journal; live turns are added once it is whole. */
  async more(): Promise<void> {
    if (this.#isLoading || this.#isJournalWhole) return;
    this.#isLoading = true;
    this.#held = [];
    try {
      const [path, query] = ofRun(this.id, 'journal', { limit: String(PAGE), ...(this.#next ? { after: this.#next } : {}) });
      const page = await ask<{ turns: Turn[]; next: string }>(path, { query, signal: this.#controller.signal });
      this.#append(page.turns);
      this.#next = page.next;
      this.#isJournalWhole = !page.next;
      if (this.#isJournalWhole) this.#append(this.#held);
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#isLoading = false;
    }
  }

  async load(): Promise<void> {
    const [path, query] = ofRun(this.id, 'story');
    const story = await ask<Story>(path, { query, signal: this.#controller.signal });
    const known = this.story.value;
    // A turn that came in while this was on its way is newer than the answer.
    if (known && known.run.turns > story.run.turns) Object.assign(story, { run: known.run, timeline: known.timeline });
    this.story.value = story;
    this.problem.value = null;
    if (story.plan) await this.#loadGraph();
  }

  /** Streams of steps are not in the journal: what is new of them is asked for. */
  async #loadStreams(): Promise<void> {
    const [path, query] = ofRun(this.id, 'stream-ends');
    const { streams } = await ask<{ streams: Record<string, number> }>(path, { query, signal: this.#controller.signal });
    const story = this.story.value!;
    if (JSON.stringify(streams) !== JSON.stringify(story.streams)) this.story.value = { ...story, streams };
  }

  async #begin(): Promise<void> {
    try {
      await this.load();
      const story = this.story.value!;
      void this.more();
      if (!isOpen(story.run)) {
        over();
        return;
      }
      const [path, query] = ofRun(this.id, 'events', { after: story.seq });
      this.#stream = follow(path, query, { opened: () => this.#opened(), lost: disconnected, message: ({ event, data }) => this.#take(event, data) });
      this.#children = window.setInterval(() => {
        if (document.hidden || !this.story.value) return;
        if (this.story.value.children.some(isOpen)) this.#soon();
        else void this.#loadStreams().catch((error) => this.#fail(error));
      }, 2000);
    } catch (error) {
      this.#fail(error);
      // A link may be older than its run: whoever follows it sees the run begin.
      if (error instanceof Problem && error.status === 404 && !this.#controller.signal.aborted) {
        this.#timer = window.setTimeout(() => void this.#begin(), this.#patience);
        this.#patience = Math.min(LONGEST, this.#patience * 1.5);
      }
    }
  }

  #opened(): void {
    connected();
    if (!this.#seen.size) void this.more(); // the server did not answer the first time
  }

  async #loadGraph(): Promise<void> {
    try {
      const [path, query] = ofRun(this.id, 'graph');
      this.graph.value = await ask<Graph>(path, { query, signal: this.#controller.signal });
    } catch (error) {
      if (!(error instanceof Problem && error.status === 404)) this.#fail(error);
    }
  }

  #take(event: string, data: string): void {
    if (event === 'turn') {
      const turn = JSON.parse(data) as LiveTurn;
      const wasHeld = this.story.value!.run.is_held;
      this.#merge(turn);
      if (turn.run.is_held !== wasHeld || turn.events.some((one) => TELLING.has(one.type)) || this.graph.value) this.#soon();
    } else if (event === 'end') {
      this.#stream?.close();
      window.clearInterval(this.#children);
      over();
      this.#soon();
    } else if (event === 'bye' && (JSON.parse(data) as { reason: string }).reason === 'revoked') {
      this.close();
      signedOut.value = true;
    }
  }

  #merge(turn: LiveTurn): void {
    const story = this.story.value!;
    const entries = new Map<number, Entry>(story.timeline.map((entry) => [entry.number, entry]));
    for (const entry of turn.entries) entries.set(entry.number, entry);
    this.story.value = { ...story, run: turn.run, timeline: [...entries.values()] };
    if (this.#isJournalWhole) this.#append([turn]);
    else if (this.#isLoading) this.#held.push(turn);
    this.turns.value++;
  }

  #append(turns: readonly Turn[]): void {
    const fresh = turns.filter((turn) => !this.#seen.has(turn.seq));
    for (const turn of fresh) this.#seen.add(turn.seq);
    this.journal.value = [...this.journal.value, ...fresh.flatMap((turn) => turn.events)];
  }

  #soon(): void {
    window.clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => void this.load().catch((error) => this.#fail(error)), 150);
  }

  #fail(error: unknown): void {
    if (error instanceof Problem) {
      if (!this.story.value) this.problem.value = error;
    } else if (!(error instanceof DOMException)) throw error;
  }
}
