// Only the rows one can see are there. The window scrolls, or a part of its own; every row has the same height.
import type { ComponentChildren, RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

const SPARE = 8;

interface Props {
  count: number;
  height: number;
  row: (index: number, top: number) => ComponentChildren;
  /** The part that scrolls; without it the window does. */
  within?: RefObject<HTMLElement | null>;
  /** Told when the reader nears the end. */
  nearEnd?: () => void;
  label?: string;
}

export function Virtual({ count, height, row, within, nearEnd, label }: Props) {
  const ref = useRef<HTMLDivElement>(null);
  const [[first, last], setRange] = useState<[number, number]>([0, 40]);

  const look = () => {
    const box = ref.current;
    if (!box) return;
    const scroller = within?.current;
    const top = scroller ? scroller.scrollTop - box.offsetTop : -box.getBoundingClientRect().top;
    const seen = scroller ? scroller.clientHeight : window.innerHeight;
    const from = Math.max(0, Math.floor(top / height) - SPARE);
    const to = Math.min(count, Math.ceil((top + seen) / height) + SPARE);
    setRange((old) => (old[0] === from && old[1] === to ? old : [from, to]));
    if (nearEnd && (count - to) * height < 4 * seen) nearEnd();
  };

  useLayoutEffect(look, [count, height]);
  useEffect(() => {
    const target: EventTarget = within?.current ?? window;
    let isAsked = false;
    const onScroll = () => {
      if (isAsked) return;
      isAsked = true;
      requestAnimationFrame(() => {
        isAsked = false;
        look();
      });
    };
    target.addEventListener('scroll', onScroll, { passive: true });
    window.addEventListener('resize', onScroll);
    return () => {
      target.removeEventListener('scroll', onScroll);
      window.removeEventListener('resize', onScroll);
    };
  }, [count, height, within, nearEnd]);

  const shown = [];
  for (let index = first; index < Math.min(last, count); index++) shown.push(row(index, index * height));
  return (
    <div class="rows" role={label ? 'rowgroup' : undefined} ref={ref} style={{ height: `${count * height}px` }}>
      {shown}
    </div>
  );
}
