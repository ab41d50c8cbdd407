// A batch as a field of squares, one for each item; those that failed are also listed in words.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask, Problem } from '../api/client';
import type { Batch, Item } from '../api/types';
import { Mark } from '../parts/mark';
import { connected, disconnected } from '../state/connection';
import { go, href } from '../state/route';
import { isDark } from '../state/theme';
import { toastError } from '../state/toasts';
import { brief, plain } from '../text';
import { count } from '../time';

const PAGE = 1000;
const MOST = 20_000;

/** The counts and items of a batch, loaded again while it runs. */
export function useBatch(id: string, turns: number): { batch: Batch | null; items: Item[] } {
  const [batch, setBatch] = useState<Batch | null>(null);
  const [items, setItems] = useState<Item[]>([]);
  const [round, setRound] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    let timer = 0;
    const load = async () => {
      const query = new URLSearchParams({ id });
      const found = await ask<Batch>('batch', { query, signal: controller.signal });
      setBatch(found);
      const all: Item[] = [];
      let after = '';
      do {
        const page = new URLSearchParams({ id, limit: String(PAGE), ...(after ? { after } : {}) });
        const answer = await ask<{ items: Item[]; next: string }>('batch/items', { query: page, signal: controller.signal });
        all.push(...answer.items);
        after = answer.next;
      } while (after && all.length < MOST);
      setItems(all);
      connected();
      if (!found.ended_at) again();
    };
    const again = () => (timer = window.setTimeout(() => setRound((old) => old + 1), 2000));
    load().catch((error: unknown) => {
      if (!(error instanceof Problem && error.isAway)) return toastError(error);
      disconnected(error);
      again();
    });
    return () => {
      controller.abort();
      window.clearTimeout(timer);
    };
  }, [id, round, turns > 0 && round === 0]);
  return { batch, items };
}

export function Items({ batch: id, turns }: { batch: string; turns: number }) {
  const { batch, items } = useBatch(id, turns);
  if (!batch) return null;
  const { counts } = batch;
  const failed = items.filter((item) => item.status === 'failed');
  return (
    <div class="items">
      <BatchCounts batch={batch} />
      <div class="pad">
        <Field items={items} total={Math.min(counts.total, MOST)} />
        {counts.total > items.length && items.length >= MOST && <p class="small dim">The first {count(MOST)} items are drawn.</p>}
      </div>
      {failed.length > 0 && (
        <table class="plain">
          <thead>
            <tr>
              <th>Item</th>
              <th>Run</th>
              <th>Error</th>
            </tr>
          </thead>
          <tbody>
            {failed.slice(0, 200).map((item) => (
              <tr>
                <td class="num">{item.index}</td>
                <td>
                  <a class="id text" href={href('run', { id: item.run })}>
                    {plain(item.run)}
                  </a>
                </td>
                <td class="error-text text" title={plain(item.error)}>{plain(brief(item.error))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}

export function BatchCounts({ batch }: { batch: Batch }) {
  const { counts } = batch;
  const waiting = counts.total - counts.completed - counts.failed - counts.cancelled - counts.running;
  return (
    <div class="counts">
      <span>
        <b>{count(counts.completed)}</b> of {count(counts.total)} completed
      </span>
      {([['running', counts.running], ['failed', counts.failed], ['cancelled', counts.cancelled], ['pending', waiting]] as const).map(
        ([status, value]) =>
          value > 0 && (
            <span class={`is-${status}`}>
              <Mark status={status} size={12} /> <b>{count(value)}</b> {status === 'pending' ? 'to come' : status}
            </span>
          ),
      )}
    </div>
  );
}

function Field({ items, total }: { items: Item[]; total: number }) {
  const ref = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const dark = isDark();
  const side = total <= 200 ? 18 : total <= 2000 ? 11 : 7;
  const columns = Math.max(1, Math.floor((width || 600) / (side + 2)));
  const rows = Math.ceil(total / columns);
  useEffect(() => {
    const observer = new ResizeObserver(() => ref.current && setWidth(ref.current.clientWidth));
    observer.observe(ref.current!);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const canvas = ref.current!;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = rows * (side + 2) * ratio;
    canvas.style.height = `${rows * (side + 2)}px`;
    const paint = canvas.getContext('2d')!;
    paint.scale(ratio, ratio);
    const style = getComputedStyle(document.documentElement);
    const colour = (status: string) => style.getPropertyValue(`--bar-${status}`);
    const known = new Map(items.map((item) => [item.index, item.status]));
    for (let index = 0; index < total; index++) {
      const status = known.get(index) ?? 'pending';
      paint.fillStyle = status === 'pending' ? style.getPropertyValue('--line') : colour(status);
      paint.fillRect((index % columns) * (side + 2), Math.floor(index / columns) * (side + 2), side, side);
    }
  }, [items, width, dark, total]);
  const itemAt = (event: MouseEvent) => {
    const box = ref.current!.getBoundingClientRect();
    const index = Math.floor((event.clientY - box.top) / (side + 2)) * columns + Math.floor((event.clientX - box.left) / (side + 2));
    return items.find((item) => item.index === index);
  };
  return (
    <canvas
      ref={ref}
      role="img"
      aria-label={`${total} items, ${items.filter((item) => item.status === 'failed').length} failed`}
      onMouseMove={(event) => {
        const item = itemAt(event);
        event.currentTarget.title = item ? `item ${item.index}: ${item.status}${item.error ? `: ${plain(item.error)}` : ''}` : '';
      }}
      onClick={(event) => {
        const item = itemAt(event);
        if (item?.run) go(href('run', { id: item.run }));
      }}
    />
  );
}
