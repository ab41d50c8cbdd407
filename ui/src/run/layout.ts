// A run's story as rows and bars: who held it, what was done when, what a crash cut off. Pure; the drawing is elsewhere.
import type { Crash, Entry, Holder, Story } from '../api/types';

export type Look = 'completed' | 'failed' | 'open' | 'cut' | 'wait' | 'retry' | 'child' | 'left' | 'pause' | 'unbegun';

export interface Bar {
  from: number;
  to: number;
  look: Look;
  /** For children: how it ended. */
  status: string;
  label: string;
  entry: Entry;
  isUndo: boolean;
}

export interface Row {
  key: string;
  label: string;
  kind: string;
  bars: Bar[];
}

export interface Moment {
  at: number;
  text: string;
  kind: string;
}

export interface Band {
  worker: string;
  epoch: number;
  from: number;
  to: number;
  hue: number;
}

export interface Silence {
  from: number;
  to: number;
  /** What is said of it, from long to short. */
  died: string[];
  tookOver: string[];
  crash: Crash;
}

export interface Chart {
  from: number;
  to: number;
  rows: Row[];
  moments: Moment[];
  bands: Band[];
  /** The bands of one worker in a row as one: it has the run, though it lets go of it while the run only waits. */
  strips: Band[];
  silences: Silence[];
  workers: string[];
}

const LASTING = new Set(['step', 'sleep', 'signal', 'topic', 'update', 'child', 'paused']);
/** Moments worth a mark; the rest is bookkeeping that the journal shows. */
const TOLD = new Set(['received', 'cancel', 'deadline', 'resumed', 'retry', 'pass', 'continued', 'adopted', 'dropped', 'entered', 'patched', 'exposed', 'sent', 'settled', 'kept', 'asked', 'answered', 'streamed', 'redacted']);

const HUES = 5;

export function chart(story: Story, now: number): Chart {
  const isOver = Boolean(story.run.ended_at);
  const horizon = isOver ? Date.parse(story.run.ended_at!) : now;
  const rows = new Map<string, Row>();
  const moments: Moment[] = [];
  const ends = new Map(story.holders.map((holder) => [holder.epoch, endOf(holder, horizon)]));
  let from = Date.parse(story.run.created_at);
  let to = horizon;
  for (const entry of story.timeline) {
    const at = Date.parse(entry.at);
    from = Math.min(from, at);
    to = Math.max(to, at);
    if (!LASTING.has(entry.kind)) {
      if (TOLD.has(entry.kind)) moments.push({ at, text: entry.text, kind: entry.kind });
      continue;
    }
    const key = entry.key || `${entry.kind} ${entry.number}`;
    let row = rows.get(key);
    if (!row) {
      row = { key, label: labelOf(entry), kind: entry.kind, bars: [] };
      rows.set(key, row);
    }
    row.bars.push(...barsOf(entry, at, horizon, ends));
  }
  for (const row of rows.values()) endRetries(row);
  const workers = [...new Set(story.holders.map((holder) => holder.worker))];
  const bands = story.holders.map((holder) => ({
    worker: holder.worker,
    epoch: holder.epoch,
    from: Date.parse(holder.from),
    to: holder.end === 'crashed' ? Date.parse(holder.last_seen) : endOf(holder, horizon),
    hue: (workers.indexOf(holder.worker) % HUES) + 1,
  }));
  const silences = story.crashes.map((crash) => silenceOf(crash));
  for (const row of rows.values()) for (const bar of row.bars) to = Math.max(to, Math.min(bar.to, horizon));
  if (to - from < 10) to = from + 10;
  return { from, to, rows: [...rows.values()], moments, bands, strips: stripsOf(bands, silences), silences, workers };
}

function stripsOf(bands: readonly Band[], silences: readonly Silence[]): Band[] {
  const strips: Band[] = [];
  for (const band of bands) {
    const last = strips.at(-1);
    const isCut = last && silences.some((silence) => silence.from >= last.from && silence.to <= band.from + 1);
    if (last && last.worker === band.worker && !isCut) last.to = band.to;
    else strips.push({ ...band });
  }
  return strips;
}

const endOf = (holder: Holder, horizon: number): number => (holder.until ? Date.parse(holder.until) : horizon);

function silenceOf(crash: Crash): Silence {
  const cut = crash.cut.length;
  const what = cut === 1 ? `, ${crash.cut[0]} cut off` : `, ${cut} steps cut off`;
  const after = `${crash.after_seconds < 10 ? crash.after_seconds.toFixed(1) : Math.round(crash.after_seconds)} s`;
  return {
    from: Date.parse(crash.last_seen),
    to: Date.parse(crash.taken_over_at),
    died: [...(cut ? [`${crash.worker} died${what}`, `${crash.worker} died, ${cut} cut off`, `died, ${cut} cut off`] : [`${crash.worker} died`]), 'died'],
    tookOver: [`${crash.by} took over after ${after}`, `took over after ${after}`, `after ${after}`],
    crash,
  };
}

function labelOf(entry: Entry): string {
  if (entry.kind === 'step' || entry.kind === 'sleep') return entry.key || entry.name || entry.kind;
  if (entry.kind === 'paused') return 'paused';
  if (entry.kind === 'child' && entry.key && !entry.key.startsWith(entry.name ?? '')) return `${entry.name} ${entry.key}`; // an item of a batch
  return entry.key && entry.kind === 'child' ? entry.key : entry.name || entry.key || entry.kind;
}

function barsOf(entry: Entry, at: number, horizon: number, ends: ReadonlyMap<number, number>): Bar[] {
  const ended = entry.ended_at ? Date.parse(entry.ended_at) : null;
  const isUndo = (entry.detail ?? '').startsWith('undoes ');
  const bar = (from: number, to: number, look: Look, label = ''): Bar => ({ from, to: Math.max(from, to), look, status: entry.outcome ?? '', label, entry, isUndo });
  const to = ended ?? (entry.outcome === 'open' ? horizon : at);
  switch (entry.kind) {
    case 'child':
      return [bar(at, to, 'child', entry.run ?? '')];
    case 'paused':
      return [bar(at, ended ?? horizon, 'pause')];
    case 'sleep':
    case 'signal':
    case 'topic':
    case 'update':
      return [bar(at, to, entry.outcome === 'left' || entry.outcome === 'abandoned' ? 'left' : 'wait', entry.kind)];
  }
  const attempt = (entry.attempt ?? 1) > 1 ? `attempt ${entry.attempt}` : '';
  switch (entry.outcome) {
    case 'completed':
      return [bar(at, to, 'completed', attempt)];
    case 'failed': {
      const first = bar(at, to, 'failed', attempt);
      const until = entry.until ? Date.parse(entry.until) : null;
      return until === null ? [first] : [first, bar(to, until, 'retry')];
    }
    case 'cut off':
      return [bar(at, ends.get(entry.epoch ?? 0) ?? horizon, 'cut', attempt)];
    case 'open':
      return [bar(at, to, 'open', attempt)];
    case 'not begun':
      return [bar(at, horizon, 'unbegun')];
    default:
      return [bar(at, to, 'left', attempt)];
  }
}

/** A wait for a retry ends where the next attempt begins, which a crash or an operator may move. */
function endRetries(row: Row): void {
  row.bars.forEach((bar, index) => {
    const next = row.bars[index + 1];
    if (bar.look === 'retry' && next) bar.to = Math.max(bar.from, next.from);
  });
}

/** Round steps of an axis: about as many as fit. */
export function ticks(from: number, to: number, most: number): { at: number; label: string }[] {
  const span = to - from;
  const sizes = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000, 172_800_000, 604_800_000, 2_592_000_000, 31_536_000_000];
  const size = sizes.find((one) => span / one <= most) ?? sizes.at(-1)!;
  const found = [];
  for (let at = Math.ceil(from / size) * size; at <= to; at += size) found.push({ at, label: axisLabel(at, size) });
  return found;
}

/** An offset from the beginning, exact to the step of the axis: "+2 h 30 min", "+1.25 s". */
function axisLabel(ms: number, size: number): string {
  if (ms === 0) return '0';
  const sign = ms < 0 ? '−' : '+';
  let value = Math.abs(ms);
  if (value < 1000) return `${sign}${value} ms`;
  const parts: string[] = [];
  const isLong = value >= 120_000 || size >= 60_000;
  for (const [unit, length] of [['d', 86_400_000], ['h', 3_600_000], ['min', 60_000]] as const) {
    const found = isLong ? Math.floor(value / length) : 0;
    if (found) parts.push(`${found} ${unit}`);
    value -= found * length;
  }
  if (value) parts.push(`${(value / 1000).toFixed(size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3)} s`);
  return sign + parts.join(' ');
}
