// The journal beside the timeline: what one points at is lit in the other.
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { signal } from '@preact/signals';
import type { JournalEvent } from '../api/types';
import { Virtual } from '../parts/virtual';
import { go, hrefWith, parameter } from '../state/route';
import { short } from '../text';
import { count, took, utc } from '../time';
import { factOf, keyOf, toneOf } from './facts';
import type { LiveRun } from './live';
import { lit } from './timeline';

const HEIGHT = 26;

/** The fact whose whole content is shown. */
export const opened = signal<JournalEvent | null>(null);

export function Journal({ live }: { live: LiveRun }) {
  const ref = useRef<HTMLDivElement>(null);
  const events = live.journal.value;
  const chosen = parameter('step');
  const start = events[0] ? Date.parse(events[0].at) : 0;
  const nearEnd = useMemo(() => () => void live.more(), [live]);
  useEffect(() => {
    const place = chosen ? events.findIndex((event) => keyOf(event) === chosen) : -1;
    const box = ref.current;
    if (place < 0 || !box) return;
    const top = place * HEIGHT;
    if (top < box.scrollTop || top > box.scrollTop + box.clientHeight - HEIGHT) box.scrollTop = Math.max(0, top - 60);
  }, [chosen, events.length > 0]);
  const choose = (event: JournalEvent) => {
    opened.value = event;
    const key = keyOf(event);
    if (key) go(hrefWith({ step: key }));
  };
  return (
    <section class="card journal-card" aria-label="journal">
      <h2>
        Journal <span class="dim small num">{count(events.length)} facts</span>
      </h2>
      <div class="journal" ref={ref} tabIndex={0} role="list" aria-label="facts">
        <Virtual
          count={events.length}
          height={HEIGHT}
          within={ref}
          nearEnd={nearEnd}
          row={(index, top) => {
            const event = events[index]!;
            const [what, name, more] = factOf(event);
            const key = keyOf(event);
            const isStart = index > 0 && events[index - 1]!.ordinal !== event.ordinal;
            return (
              <div
                key={`${event.seq}.${event.index}`}
                role="listitem"
                class={`journal-row ${toneOf(event.type)} ${isStart ? 'turn-start' : ''} ${key && key === chosen ? 'on' : ''} ${key && lit.value === key ? 'lit' : ''}`}
                style={{ transform: `translateY(${top}px)` }}
                title={`${short(`${what} ${name} ${more}`, 400)}\nrow ${event.ordinal}, ${utc(Date.parse(event.at))}`}
                data-seq={event.seq}
                onMouseEnter={() => (lit.value = key)}
                onMouseLeave={() => (lit.value = '')}
                onClick={() => choose(event)}
              >
                <span class="num">{index === 0 ? '0' : `+${took(Date.parse(event.at) - start)}`}</span>
                <span class="clip text">
                  <b>{what}</b> <span class="mono">{short(name, 80)}</span> <span class="soft">{short(more, 160)}</span>
                </span>
              </div>
            );
          }}
        />
      </div>
    </section>
  );
}
