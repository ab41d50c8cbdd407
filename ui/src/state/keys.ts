// Keys of the whole page. A page adds its own while it is shown.
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { go, href } from './route';

export const isHelpOpen = signal(false);

type Action = (event: KeyboardEvent) => void;
const layers: Record<string, Action>[] = [];

const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) && (target as HTMLInputElement).type !== 'checkbox';

let isGoing = 0;
const PLACES: Record<string, Parameters<typeof href>[0]> = { r: '', w: 'workflows', b: 'batches', k: 'workers', q: 'queues', l: 'limits', s: 'schedules' };

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector('dialog[open]')) return;
  const place = PLACES[event.key];
  if (Date.now() - isGoing < 1200 && place !== undefined) {
    isGoing = 0;
    go(href(place));
    return;
  }
  if (event.key === 'g') {
    isGoing = Date.now();
    return;
  }
  if (event.key === '?') {
    isHelpOpen.value = true;
    return;
  }
  for (const layer of layers) {
    const action = layer[event.key];
    if (action) {
      action(event);
      return;
    }
  }
});

export function useKeys(keys: Record<string, Action>): void {
  useEffect(() => {
    layers.unshift(keys);
    return () => {
      layers.splice(layers.indexOf(keys), 1);
    };
  });
}
