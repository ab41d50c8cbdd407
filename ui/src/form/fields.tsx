import { useState } from 'preact/hooks';
import type { Schema } from '../api/types';
import { fieldOf, initial } from './schema';

interface Props {
  name: string;
  schema: Schema;
  root: Schema;
  value: unknown;
  isRequired: boolean;
  change: (value: unknown) => void;
  depth?: number;
}

/** One value of a schema. What has no field of its own is typed as JSON. */
export function Fields({ name, schema, root, value, isRequired, change, depth = 0 }: Props) {
  const field = fieldOf(schema, root, depth);
  const about = typeof field.schema.description === 'string' ? field.schema.description : '';
  const label = (
    <span>
      {name} {!isRequired && <span class="dim small">optional</span>} {about && <span class="dim small">{about}</span>}
    </span>
  );
  if (!isRequired && value === undefined)
    return (
      <div>
        <button type="button" class="btn bare" onClick={() => change(initial(schema, root, depth))}>
          + {name}
        </button>
      </div>
    );
  switch (field.kind) {
    case 'object': {
      const values = (value ?? {}) as Record<string, unknown>;
      return (
        <fieldset>
          <legend>{name}</legend>
          {field.properties.map(([key, one, isNeeded]) => (
            <Fields key={key} name={key} schema={one} root={root} value={values[key]} isRequired={isNeeded} depth={depth + 1} change={(next) => change({ ...values, [key]: next })} />
          ))}
        </fieldset>
      );
    }
    case 'boolean':
      return (
        <label>
          <input type="checkbox" checked={value === true} onChange={(event) => change(event.currentTarget.checked)} /> {name}
        </label>
      );
    case 'choice':
      return (
        <label class="line">
          {label}
          <select class="field" value={String(value)} onChange={(event) => change(field.choices[event.currentTarget.selectedIndex])}>
            {field.choices.map((choice) => (
              <option value={String(choice)}>{String(choice)}</option>
            ))}
          </select>
        </label>
      );
    case 'json':
      return (
        <label class="line">
          {label}
          <Json value={value} change={change} label={name} />
        </label>
      );
    case 'text':
      return (
        <label class="line">
          {label}
          <input class="field" value={typeof value === 'string' ? value : ''} onInput={(event) => change(event.currentTarget.value)} />
        </label>
      );
    default:
      return (
        <label class="line">
          {label}
          <input class="field" type="number" step={field.kind === 'integer' ? 1 : 'any'} value={typeof value === 'number' ? value : ''} onInput={(event) => change(event.currentTarget.value === '' ? null : event.currentTarget.valueAsNumber)} />
        </label>
      );
  }
}

/** JSON as text; what does not parse yet stays as it is typed. */
export function Json({ value, change, label }: { value: unknown; change: (value: unknown) => void; label: string }) {
  const [text, setText] = useState(() => JSON.stringify(value ?? null, null, 2));
  const [problem, setProblem] = useState('');
  const take = (next: string) => {
    setText(next);
    try {
      change(JSON.parse(next) as unknown);
      setProblem('');
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <>
      <textarea class="field" aria-label={label} spellcheck={false} value={text} onInput={(event) => take(event.currentTarget.value)} />
      {problem && <span class="error-text">This is not JSON yet: {problem}</span>}
    </>
  );
}
