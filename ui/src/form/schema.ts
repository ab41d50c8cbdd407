// A JSON Schema as a form sees it: which field each value gets, and what the fields say as JSON. Pure.
import type { Schema } from '../api/types';

export type Field =
  | { kind: 'text' | 'number' | 'integer' | 'boolean' | 'json'; schema: Schema }
  | { kind: 'choice'; schema: Schema; choices: unknown[] }
  | { kind: 'object'; schema: Schema; properties: [string, Schema, boolean][] };

const DEEPEST = 3;

/** Follows a `$ref` within the document. */
export function resolve(schema: Schema, root: Schema): Schema {
  const name = schema.$ref?.replace('#/$defs/', '');
  const found = name ? root.$defs?.[name] : undefined;
  return found ? { ...found, ...without(schema, '$ref') } : schema;
}

function without(schema: Schema, key: string): Schema {
  const copy = { ...schema };
  delete copy[key];
  return copy;
}

export function fieldOf(given: Schema, root: Schema, depth = 0): Field {
  const schema = resolve(given, root);
  if (schema.enum) return { kind: 'choice', schema, choices: schema.enum };
  const optional = schema.anyOf?.filter((one) => one.type !== 'null');
  if (schema.anyOf && optional?.length === 1 && optional.length < schema.anyOf.length) {
    const inner = fieldOf(optional[0]!, root, depth);
    return inner.kind === 'object' ? { kind: 'json', schema } : { ...inner, schema: { ...inner.schema, ...without(schema, 'anyOf') } };
  }
  switch (schema.type) {
    case 'string':
      return { kind: 'text', schema };
    case 'integer':
    case 'number':
    case 'boolean':
      return { kind: schema.type, schema };
    case 'object':
      if (schema.properties && depth < DEEPEST) {
        const required = new Set(schema.required ?? []);
        return { kind: 'object', schema, properties: Object.entries(schema.properties).map(([name, one]) => [name, one, required.has(name)]) };
      }
      return { kind: 'json', schema };
    default:
      return { kind: 'json', schema };
  }
}

/** What the form holds before anybody has typed: defaults, and nothing where there is none. */
export function initial(given: Schema, root: Schema, depth = 0): unknown {
  const field = fieldOf(given, root, depth);
  if (field.schema.default !== undefined) return field.schema.default;
  switch (field.kind) {
    case 'object':
      return Object.fromEntries(
        field.properties
          .map(([name, schema, isRequired]) => [name, isRequired ? initial(schema, root, depth + 1) : resolve(schema, root).default] as const)
          .filter(([, value]) => value !== undefined),
      );
    case 'text':
      return '';
    case 'boolean':
      return false;
    case 'choice':
      return field.choices[0];
    case 'json':
      return field.schema.type === 'array' ? [] : field.schema.type === 'object' ? {} : null;
    default:
      return 0;
  }
}

/** A type in words: "text", "one of slow, fast", "list of number", "Order", "text or nothing". */
export function typeText(given: Schema, root: Schema): string {
  const schema = resolve(given, root);
  if (schema.enum) return `one of ${schema.enum.map(String).join(', ')}`;
  if (schema.anyOf) return schema.anyOf.map((one) => typeText(one, root)).join(' or ');
  if (Array.isArray(schema.type)) return schema.type.map((one) => typeText({ type: one }, root)).join(' or ');
  switch (schema.type) {
    case 'string':
      return typeof schema['format'] === 'string' ? schema['format'] : 'text';
    case 'integer':
      return 'whole number';
    case 'boolean':
      return 'true or false';
    case 'null':
      return 'nothing';
    case 'array':
      return schema.items ? `list of ${typeText(schema.items, root)}` : 'list';
    case 'object':
      return schema.title ?? given.$ref?.replace('#/$defs/', '') ?? 'object';
    default:
      return schema.type ?? 'anything';
  }
}
