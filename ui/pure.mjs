// Calls functions of the page's sources without a browser: reads [[name, ...arguments], ...] and writes their answers.
import { build } from 'esbuild';

const exported = `
export { sentence } from './words';
export { duration, took, left } from './time';
export { brief, plain } from './text';
export { factOf } from './run/facts';
export { chart, ticks } from './run/layout';
export { layOut } from './graph/layout';
export { initial, fieldOf } from './form/schema';
import { blocksOf, endsOf } from './run/parts';
export const blocks = (parts, timeline) => blocksOf(parts, endsOf(timeline));
import { Parser } from './api/sse';
export const parse = (pieces) => { const parser = new Parser(); return pieces.flatMap((piece) => parser.take(piece)); };
export const laidOut = (nodes, edges) => { const found = layOut_(nodes, edges); return { ...found, nodes: [...found.nodes.values()] }; };
import { layOut as layOut_ } from './graph/layout';
`;
globalThis.window = { setInterval() {}, setTimeout() {}, addEventListener() {} };
globalThis.document = { baseURI: 'http://127.0.0.1/', addEventListener() {} };
const { outputFiles } = await build({ stdin: { contents: exported, resolveDir: 'src', loader: 'ts' }, bundle: true, write: false, format: 'esm', logLevel: 'error' });
const page = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString('base64')}`);
let text = '';
for await (const piece of process.stdin) text += piece;
process.stdout.write(JSON.stringify(JSON.parse(text).map(([name, ...given]) => page[name](...given))));
