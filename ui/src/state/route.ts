// Where the reader is: everything that can be linked to is in the address. Ids stand in the query, for they contain "/".
import { computed, signal } from '@preact/signals';
import { base } from '../api/client';

export type PageName = '' | 'runs' | 'run' | 'workflows' | 'workflow' | 'workers' | 'queues' | 'limits' | 'schedules' | 'batches' | 'batch' | 'login';

const address = signal(new URL(location.href));
window.addEventListener('popstate', () => (address.value = new URL(location.href)));

export const page = computed<PageName>(() => address.value.pathname.slice(base.length).replace(/\/$/, '') as PageName);
export const query = computed(() => address.value.searchParams);
export const parameter = (name: string): string => query.value.get(name) ?? '';

type Values = Record<string, string | null | undefined>;

export function href(name: PageName, values: Values = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) if (value) search.set(key, value);
  const text = search.toString();
  return `${base}${name}${text ? `?${text}` : ''}`;
}

/** The same page with other parameters; the rest of the address stays. */
export function hrefWith(values: Values): string {
  const search = new URLSearchParams(query.value);
  for (const [key, value] of Object.entries(values)) {
    if (value) search.set(key, value);
    else search.delete(key);
  }
  const text = search.toString();
  return `${base}${page.value}${text ? `?${text}` : ''}`;
}

export function go(target: string, options: { replace?: boolean } = {}): void {
  const next = new URL(target, location.href);
  if (next.href === location.href) return;
  const isSamePage = next.pathname === location.pathname;
  if (options.replace) history.replaceState(null, '', next);
  else history.pushState(null, '', next);
  address.value = next;
  if (!isSamePage) window.scrollTo(0, 0);
}

/** Plain clicks on links of the page stay in the page. */
document.addEventListener('click', (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest?.('a');
  if (!link || link.hasAttribute('target') || link.hasAttribute('download')) return;
  const there = link.getAttribute('href'); // as text: the properties of a link in a drawing are objects
  if (!there || there.startsWith('#')) return;
  const to = new URL(there, location.href);
  if (to.origin !== location.origin || !to.pathname.startsWith(base) || to.pathname.startsWith(`${base}api/`)) return;
  event.preventDefault();
  go(to.href, { replace: link.hasAttribute('data-replace') });
});
