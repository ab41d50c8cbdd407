// Filters under a name, kept in this browser.
import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { Dialog } from '../parts/dialog';
import { base } from '../api/client';
import { query } from '../state/route';

interface View {
  name: string;
  query: string;
}

const KEY = 'holdfast-views';

function stored(): View[] {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? '[]') as View[];
    return found.filter((view) => typeof view.name === 'string' && typeof view.query === 'string');
  } catch {
    return [];
  }
}

const views = signal(stored());

function keep(next: View[]): void {
  views.value = next;
  localStorage.setItem(KEY, JSON.stringify(next));
}

export function Views() {
  const [isSaving, setSaving] = useState(false);
  const [name, setName] = useState('');
  const here = query.value.toString();
  const known = views.value.some((view) => view.query === here);
  return (
    <>
      {views.value.map((view) => (
        <span class={`chip ${view.query === here ? 'on' : ''}`}>
          <a href={`${base}?${view.query}`}>★ {view.name}</a>
          <button class="x" aria-label={`forget the view ${view.name}`} onClick={() => keep(views.value.filter((one) => one !== view))}>
            ×
          </button>
        </span>
      ))}
      {here && !known && (
        <button class="chip" onClick={() => setSaving(true)}>
          ☆ save view
        </button>
      )}
      {isSaving && (
        <Dialog
          title="Save this view"
          verb="Save"
          isDisabled={!name.trim()}
          close={() => setSaving(false)}
          act={async () => {
            keep([...views.value.filter((view) => view.name !== name.trim()), { name: name.trim(), query: here }]);
            setName('');
          }}
        >
          <label class="line">
            <span>Name</span>
            <input class="field" autofocus value={name} onInput={(event) => setName(event.currentTarget.value)} placeholder="failed orders of today" />
          </label>
          <p class="small dim">The filters of this page, kept in this browser.</p>
        </Dialog>
      )}
    </>
  );
}
