// Server-sent events over fetch: unlike EventSource it can say where to resume after any loss, and why it was refused.
import { call, Problem } from './client';

export interface Message {
  event: string;
  id: string;
  data: string;
}

/** Takes the text of a stream in pieces, however they are cut, and gives the messages that are complete. */
export class Parser {
  #rest = '';
  #data: string[] = [];
  #event = '';
  lastId = '';
  retry = 0;

  take(piece: string): Message[] {
    const found: Message[] = [];
    const lines = (this.#rest + piece).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') {
        if (this.#data.length) found.push({ event: this.#event || 'message', id: this.lastId, data: this.#data.join('\n') });
        this.#data = [];
        this.#event = '';
        continue;
      }
      const colon = line.indexOf(':');
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'data') this.#data.push(value);
      else if (field === 'event') this.#event = value;
      else if (field === 'id') this.lastId = value;
      else if (field === 'retry' && /^\d+$/.test(value)) this.retry = Number(value);
    }
    return found;
  }
}

export interface Stream {
  close(): void;
}

export interface Listener {
  message(message: Message): void;
  /** Connected again, after a loss or at first. */
  opened(): void;
  /** The connection is lost; it is tried again by itself. */
  lost(problem: Problem): void;
}

const HIDDEN_GRACE = 20_000;
const SLOWEST = 15_000;

/** Follows a stream until closed: resumes after every loss from the last id, and rests while the tab is hidden. */
export function follow(path: string, query: URLSearchParams, listener: Listener, from = ''): Stream {
  let lastId = from;
  let isClosed = false;
  let controller = new AbortController();
  let wake: (() => void) | null = null;
  let hiding = 0;

  const onVisibility = () => {
    window.clearTimeout(hiding);
    if (document.hidden) hiding = window.setTimeout(() => controller.abort(), HIDDEN_GRACE);
    else wake?.();
  };
  document.addEventListener('visibilitychange', onVisibility);

  const pause = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = document.hidden ? 0 : window.setTimeout(resolve, ms);
      wake = () => {
        window.clearTimeout(timer);
        resolve();
      };
    });

  async function once(): Promise<number> {
    controller = new AbortController();
    const headers: Record<string, string> = { accept: 'text/event-stream' };
    if (lastId) headers['last-event-id'] = lastId;
    const response = await call(path, { query, headers, signal: controller.signal });
    listener.opened();
    const parser = new Parser();
    parser.lastId = lastId;
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return parser.retry;
      for (const message of parser.take(value)) {
        lastId = message.id;
        if (!isClosed) listener.message(message);
      }
    }
  }

  async function loop(): Promise<void> {
    let failures = 0;
    while (!isClosed) {
      let hint = 0;
      const began = Date.now();
      try {
        hint = await once();
        if (!isClosed) listener.lost(new Problem(0, 'The stream ended', 'The server ended the stream'));
      } catch (error) {
        if (isClosed) return;
        if (error instanceof Problem && [401, 403, 404, 410].includes(error.status)) {
          listener.lost(error);
          return;
        }
        if (!document.hidden) listener.lost(error instanceof Problem ? error : new Problem(0, 'The connection broke', String(error)));
      }
      failures = Date.now() - began > 10_000 ? 1 : failures + 1;
      await pause(hint || Math.min(SLOWEST, 250 * 2 ** Math.min(failures, 8)) * (0.75 + Math.random() / 2));
    }
  }

  void loop();
  return {
    close() {
      isClosed = true;
      document.removeEventListener('visibilitychange', onVisibility);
      window.clearTimeout(hiding);
      controller.abort();
      wake?.();
    },
  };
}
