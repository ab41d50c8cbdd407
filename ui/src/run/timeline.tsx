// The picture of a run. Bands say who held it, red lines where a worker died, green ones where another took over.
import { signal, type Signal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Story } from '../api/types';
import { isOpen } from '../api/types';
import { current, now } from '../state/clock';
import { useKeys } from '../state/keys';
import { hrefWith, parameter } from '../state/route';
import { plain, short } from '../text';
import { clock, local, took, utc } from '../time';
import { Legend } from './legend';
import { chart, ticks, type Bar, type Chart, type Row } from './layout';

const HEAD = 46;
const STEP = 28;
const FOOT = 20;

/** The key under the pointer, in the timeline or in the journal. */
export const lit: Signal<string> = signal('');

type Span = readonly [number, number];

export function Timeline({ story }: { story: Story }) {
  const at = isOpen(story.run) ? now.value : 0;
  const whole = useMemo(() => chart(story, at || current()), [story, at]);
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(720);
  const [zoom, setZoom] = useState<Span | null>(null);
  const [tip, setTip] = useState<{ x: number; y: number; lines: string[] } | null>(null);
  useLayoutEffect(() => {
    const look = () => box.current && setWidth(Math.max(260, Math.floor(box.current.clientWidth)));
    look();
    const observer = new ResizeObserver(look);
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);

  // Room at the right, so that what runs does not stick to the edge.
  const full: Span = [whole.from, whole.to + (whole.to - whole.from) * 0.04];
  const [from, to] = zoom ?? full;
  const scale = (ms: number) => ((ms - from) / (to - from)) * width;
  const change = (factor: number, middle = (from + to) / 2) => {
    const next: Span = [middle - (middle - from) * factor, middle + (to - middle) * factor];
    setZoom(next[1] - next[0] >= full[1] - full[0] ? null : next[1] - next[0] < 2 ? zoom : [Math.max(next[0], full[0]), Math.min(next[1], full[1])]);
  };
  const rows = whole.rows;
  const chosen = parameter('step');
  const move = (by: number) => {
    const place = rows.findIndex((row) => row.key === chosen);
    const row = rows[Math.min(rows.length - 1, Math.max(0, place + by))];
    if (row) document.querySelector<SVGElement>(`[data-row="${CSS.escape(row.key)}"]`)?.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true }));
  };
  useKeys({ '+': () => change(0.5), '=': () => change(0.5), '-': () => change(2), '0': () => setZoom(null), j: () => move(1), k: () => move(-1) });

  useEffect(() => {
    const wheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const left = box.current!.getBoundingClientRect().left;
      change(event.deltaY > 0 ? 1.25 : 0.8, from + ((event.clientX - left) / width) * (to - from));
    };
    box.current!.addEventListener('wheel', wheel, { passive: false });
    return () => box.current?.removeEventListener('wheel', wheel);
  });

  const height = HEAD + rows.length * STEP + FOOT;
  return (
    <div class="timeline">
      <div class="tools">
        <Legend chart={whole} />
        <button class="btn bare" aria-label="zoom in" onClick={() => change(0.5)}>
          +
        </button>
        <button class="btn bare" aria-label="zoom out" onClick={() => change(2)}>
          −
        </button>
        <button class="btn bare" disabled={!zoom} onClick={() => setZoom(null)}>
          whole run
        </button>
      </div>
      <div class="gantt">
        <Names rows={rows} height={height} chosen={chosen} />
        <div class="chart" ref={box} tabIndex={0} role="group" aria-label="timeline">
          <Drawing chart={whole} width={width} height={height} span={[from, to]} scale={scale} chosen={chosen} zoomTo={setZoom} tell={setTip} isLive={isOpen(story.run)} />
        </div>
      </div>
      {story.omitted > 0 && <p class="small dim">{story.omitted} entries that ended earlier are not drawn; the journal has all of them.</p>}
      {tip && <Tip {...tip} />}
    </div>
  );
}

function Names({ rows, height, chosen }: { rows: Row[]; height: number; chosen: string }) {
  const longest = Math.max(8, ...rows.map((row) => Math.min(24, row.label.length)));
  const width = longest * 7.3 + 16;
  return (
    <svg class="names" width={width} height={height} aria-label="steps" role="group">
      {rows.map((row, index) => (
        <a href={hrefWith({ step: row.key, tab: null })} data-row={row.key} aria-label={plain(row.key)} onMouseEnter={() => (lit.value = row.key)} onMouseLeave={() => (lit.value = '')}>
          <rect class={`hit ${row.key === chosen ? 'on' : ''} ${lit.value === row.key ? 'lit' : ''}`} x="0" y={HEAD + index * STEP} width={width} height={STEP - 2} rx="5" />
          <text class={row.kind === 'step' || row.kind === 'child' ? '' : 'wait'} x="8" y={HEAD + index * STEP + 17}>
            {short(row.label, 24)}
          </text>
        </a>
      ))}
    </svg>
  );
}

interface DrawingProps {
  chart: Chart;
  width: number;
  height: number;
  span: Span;
  scale: (ms: number) => number;
  chosen: string;
  zoomTo: (span: Span) => void;
  tell: (tip: { x: number; y: number; lines: string[] } | null) => void;
  isLive: boolean;
}

function Drawing({ chart: whole, width, height, span, scale, chosen, zoomTo, tell, isLive }: DrawingProps) {
  const ref = useRef<SVGSVGElement>(null);
  const [drag, setDrag] = useState<Span | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const bottom = height - FOOT;
  const x = (event: PointerEvent | MouseEvent) => event.clientX - ref.current!.getBoundingClientRect().left;
  const atX = (place: number) => span[0] + (place / width) * (span[1] - span[0]);
  const finish = () => {
    if (drag && Math.abs(drag[1] - drag[0]) > 6) zoomTo([atX(Math.min(...drag)), atX(Math.max(...drag))]);
    setDrag(null);
  };
  const marks = ticks(span[0] - whole.from, span[1] - whole.from, width / 82);
  return (
    <svg
      ref={ref}
      width={width}
      height={height}
      onPointerDown={(event) => event.offsetY < HEAD && event.pointerType === 'mouse' && setDrag([x(event), x(event)])}
      onPointerMove={(event) => {
        setCursor(event.pointerType === 'mouse' ? x(event) : null);
        if (drag) setDrag([drag[0], x(event)]);
      }}
      onPointerUp={finish}
      onPointerLeave={() => {
        finish();
        setCursor(null);
        tell(null);
      }}
    >
      <defs>
        <pattern id="cut" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect width="7" height="7" fill="var(--bar-paused)" opacity=".22" />
          <rect width="3.2" height="7" fill="var(--bar-paused)" />
        </pattern>
        <pattern id="silence" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect width="8" height="8" fill="var(--failed)" opacity=".05" />
          <rect width="1.4" height="8" fill="var(--failed)" opacity=".22" />
        </pattern>
      </defs>
      <Bands chart={whole} scale={scale} width={width} bottom={bottom} />
      {marks.map(({ at, label }) => (
        <g>
          <path class="grid-line" d={`M${scale(at + whole.from)} ${HEAD - 4}V${bottom}`} />
          <text visibility={isLive && Math.abs(scale(at + whole.from) - scale(whole.to)) < 44 ? 'hidden' : 'visible'} class="tick" x={Math.min(width - 4, Math.max(0, scale(at + whole.from)))} y={height - 6} text-anchor={scale(at + whole.from) < 20 ? 'start' : scale(at + whole.from) > width - 24 ? 'end' : 'middle'}>
            {at === 0 ? clock(whole.from) : label}
          </text>
        </g>
      ))}
      {whole.rows.map((row, index) => (
        <a href={hrefWith({ step: row.key, tab: null })} tabindex={-1} aria-hidden="true" onMouseEnter={() => (lit.value = row.key)} onMouseLeave={() => { lit.value = ''; tell(null); }}>
          <rect class={`hit ${row.key === chosen ? 'on' : ''} ${lit.value === row.key ? 'lit' : ''}`} x="0" y={HEAD + index * STEP} width={width} height={STEP - 2} rx="5" />
          {row.bars.map((bar, place) => (
            <g onMouseMove={(event) => tell({ x: event.clientX, y: event.clientY, lines: describe(bar, row) })}>
              <OneBar bar={bar} y={HEAD + index * STEP} left={scale(bar.from)} right={scale(bar.to)} room={(row.bars[place + 1] ? scale(row.bars[place + 1]!.from) : width) - scale(bar.to)} width={width} />
            </g>
          ))}
        </a>
      ))}
      <Crashes chart={whole} scale={scale} width={width} bottom={bottom} />
      {whole.moments.map((moment) => (
        <g onMouseMove={(event) => tell({ x: event.clientX, y: event.clientY, lines: [plain(moment.text), `${local(moment.at, current())}, ${utc(moment.at)}`] })} onMouseLeave={() => tell(null)}>
          <path class="moment" d={`M${scale(moment.at)} ${bottom - 5}l4.5 4.5-4.5 4.5-4.5-4.5z`} />
        </g>
      ))}
      {isLive && scale(whole.to) <= width && (
        <g>
          <path class="nowline" d={`M${scale(whole.to)} ${HEAD - 4}V${bottom}`} />
          <text class="nowtext" x={Math.min(width - 12, scale(whole.to))} y={height - 6} text-anchor="middle">
            now
          </text>
        </g>
      )}
      {cursor !== null && !drag && <path class="cursor" d={`M${cursor} ${HEAD - 4}V${bottom}`} />}
      {drag && <rect class="brush" x={Math.min(...drag)} y="0" width={Math.abs(drag[1] - drag[0])} height={bottom} />}
    </svg>
  );
}

function Bands({ chart: whole, scale, width, bottom }: { chart: Chart; scale: (ms: number) => number; width: number; bottom: number }) {
  return (
    <>
      {whole.bands.map((band) => {
        const left = Math.max(0, scale(band.from));
        const right = Math.min(width, scale(band.to));
        if (right - left < 0.5) return null;
        return (
          <g>
            <rect x={left} y={22} width={right - left} height={bottom - 22} fill={`var(--w${band.hue})`} opacity=".6" rx="3" />
            <title>{`${plain(band.worker)}, epoch ${band.epoch}`}</title>
          </g>
        );
      })}
      {whole.strips.map((band) => {
        const left = Math.max(0, scale(band.from));
        const right = Math.min(width, scale(band.to));
        if (right - left < 0.5) return null;
        const most = Math.floor((right - left - 12) / 6.4);
        return (
          <g>
            <rect x={left} y={0} width={right - left} height={18} fill={`var(--w${band.hue})`} rx="4" />
            {most > 2 && (
              <text x={left + 7} y={13}>
                {short(band.worker, most)}
              </text>
            )}
            <title>{plain(band.worker)}</title>
          </g>
        );
      })}
    </>
  );
}

function Crashes({ chart: whole, scale, width, bottom }: { chart: Chart; scale: (ms: number) => number; width: number; bottom: number }) {
  return (
    <>
      {whole.silences.map((silence, index) => {
        const a = scale(silence.from);
        const b = scale(silence.to);
        if (b < -2 || a > width + 2) return null;
        const room = a - (index ? scale(whole.silences[index - 1]!.to) : 0);
        const space = (whole.silences[index + 1] ? scale(whole.silences[index + 1]!.from) : width) - b;
        const before = flag(silence.died, a > room ? room : a);
        const within = flag(silence.died, b - a);
        const isWithin = within !== null && within.width > (before?.width ?? 0); // no room on the left of the line
        const died = isWithin ? within : before;
        const left = died && !isWithin ? a - died.width : a;
        const taken = flag(silence.tookOver, space);
        return (
          <g>
            <title>{`${plain(silence.died[0]!)}; last heard of at ${clock(silence.from, true)}. ${plain(silence.tookOver[0]!)}.`}</title>
            <rect class="silence" x={a} y={22} width={Math.max(0, b - a)} height={bottom - 22} />
            <path class="died" d={`M${a} 20V${bottom}`} />
            <path class="taken" d={`M${b} 20V${bottom}`} />
            {died && (
              <>
                <rect class="flag-died" x={left} y="22" width={died.width} height="18" rx="4" />
                <text class="on-flag" x={left + 7} y="35">
                  {died.text}
                </text>
              </>
            )}
            {taken && (
              <>
                <rect class="flag-taken" x={b} y="22" width={taken.width} height="18" rx="4" />
                <text class="on-flag" x={b + 7} y="35">
                  {taken.text}
                </text>
              </>
            )}
          </g>
        );
      })}
    </>
  );
}

/** The longest of these texts that there is room for. */
function flag(texts: readonly string[], room: number): { text: string; width: number } | null {
  for (const text of texts.map((one) => short(one, 60))) {
    const width = text.length * 5.9 + 14;
    if (width <= room) return { text, width };
  }
  return null;
}

function OneBar({ bar, y, left, right, room, width }: { bar: Bar; y: number; left: number; right: number; room: number; width: number }) {
  const wide = Math.max(right - left, 3);
  if (right < -3 || left > width + 3) return null;
  const label = bar.label && room > bar.label.length * 6 + 8 ? bar.label : '';
  switch (bar.look) {
    case 'wait':
    case 'retry':
    case 'left':
    case 'unbegun': {
      const text = bar.look === 'retry' ? `retry after ${took(bar.to - bar.from)}` : '';
      return (
        <>
          <rect x={left} y={y + 4} width={wide} height={18} fill="transparent" />
          <path class={`waitline ${bar.look === 'left' ? 'undone' : ''}`} d={`M${left + 1.5} ${y + 14}H${Math.max(left + 2, right - 1.5)}`} />
          {text && wide > text.length * 6 + 10 && (
            <text class="tick" x={Math.min(left, width) + 6} y={y + 7}>
              {text}
            </text>
          )}
        </>
      );
    }
    case 'cut':
      return <rect x={left} y={y + 5} width={wide} height="16" rx="4" fill="url(#cut)" />;
    default: {
      const status = { completed: 'completed', failed: 'failed', open: 'running', child: bar.status === 'open' ? 'running' : bar.status, pause: 'paused' }[bar.look];
      const inside = bar.look === 'child' && wide > 60 ? short(`▸ ${bar.label}`, Math.floor((wide - 14) / 6.2)) : '';
      return (
        <>
          <rect class={`bar is-${bar.isUndo ? 'cancelled' : status} ${bar.look === 'open' ? 'open' : ''}`} x={left} y={y + 5} width={wide} height="16" rx="4" />
          {inside && (
            <text class="in-bar" x={left + 7} y={y + 17}>
              {inside}
            </text>
          )}
          {!inside && label && bar.look !== 'child' && (
            <text class="tick" x={right + 6} y={y + 17}>
              {label}
            </text>
          )}
        </>
      );
    }
  }
}

function describe(bar: Bar, row: Row): string[] {
  const { entry } = bar;
  const head = bar.look === 'retry' ? `${row.label}: the next attempt waits` : entry.text;
  const lines = [plain(head), `${local(bar.from, current())}, ${took(Math.max(0, bar.to - bar.from))}${entry.worker ? `, ${entry.worker}` : ''}`];
  if (bar.look === 'cut') lines.push('its worker died: how far it came is not known, so it is done again');
  return [...lines, utc(bar.from)];
}

function Tip({ x, y, lines }: { x: number; y: number; lines: string[] }) {
  const isLow = y > window.innerHeight - 130;
  const style: Record<string, string> = { left: `${Math.min(x + 14, window.innerWidth - 395)}px`, [isLow ? 'bottom' : 'top']: `${isLow ? window.innerHeight - y + 12 : y + 16}px` };
  return (
    <div class="tip" style={style}>
      {lines.map((line, index) => (
        <span class={index ? 'dim' : 'text'}>{line}</span>
      ))}
    </div>
  );
}
