// One run: what it does now, how it got here, and what can be done about it.
import { useEffect, useMemo } from 'preact/hooks';
import { Actions } from '../run/actions';
import { Family } from '../run/family';
import { Facts, Headline, shownBy } from '../run/headline';
import { Inspector } from '../run/inspector';
import { Journal, opened } from '../run/journal';
import { LiveRun } from '../run/live';
import { RunGraph } from '../run/graph';
import { Timeline } from '../run/timeline';
import { Items } from '../run/items';
import { Questions } from '../run/questions';
import { Streams } from '../run/streams';
import type { Story } from '../api/types';
import { Live } from '../parts/frame';
import { Mark, Pill } from '../parts/mark';
import { FailureText, Value } from '../parts/value';
import { useKeys } from '../state/keys';
import { go, href, hrefWith, parameter } from '../state/route';
import { toastError } from '../state/toasts';
import { plain } from '../text';

export function RunPage({ id }: { id: string }) {
  const live = useMemo(() => new LiveRun(id), [id]);
  useEffect(() => {
    document.title = `${plain(id)} · Holdfast`;
    opened.value = null;
    return () => live.close();
  }, [live]);
  useKeys({ Escape: () => (parameter('step') ? go(hrefWith({ step: null })) : go(href(''))) });
  const story = live.story.value;
  if (live.problem.value) return <Missing id={id} title={live.problem.value.title} detail={live.problem.value.detail} />;
  if (!story) return null;
  const { run } = story;
  const step = parameter('step');
  return (
    <>
      <div class="top">
        <div class="crumb">
          <a class="dim" href={href('')}>
            Runs
          </a>
          <span class="dim">/</span>
          <h1 class="text">{plain(run.id)}</h1>
          <Pill status={run.damage.length ? 'failed' : run.status}>{run.damage.length ? 'damaged' : run.status}</Pill>
        </div>
        <div class="acts">
          <Live />
          <Actions run={run} done={() => void live.load().catch(toastError)} />
        </div>
      </div>
      <Headline story={story} />
      <Facts story={story} />
      {story.problems.map((text) => (
        <p class="notice is-paused">
          <Mark status="paused" />
          <span class="text">{plain(text)}</span>
        </p>
      ))}
      <div class="split">
        <div>
          <Main story={story} live={live} />
          <Streams story={story} />
          <Values story={story} live={live} />
        </div>
        <div class="side">
          {step && <Inspector live={live} step={step} />}
          <Journal live={live} />
        </div>
      </div>
    </>
  );
}

type Tab = 'timeline' | 'graph' | 'children' | 'items';

function Main({ story, live }: { story: Story; live: LiveRun }) {
  const graph = live.graph.value;
  const isBatch = story.run.workflow === 'holdfast.batch';
  const first: Tab = isBatch ? 'items' : 'timeline';
  const tabs: [Tab, string, number?][] = [
    ...(isBatch ? ([['items', 'Items']] as [Tab, string][]) : []),
    ['timeline', 'Timeline'],
    ...(graph ? ([['graph', graph.kind === 'machine' ? 'States' : 'Flow']] as [Tab, string][]) : []),
    ['children', 'Children', story.children.length],
  ];
  const asked = parameter('tab') as Tab;
  const tab = tabs.some(([name]) => name === asked) ? asked : first;
  return (
    <div class="card">
      <div class="tabs" role="tablist">
        {tabs.map(([name, label, figure]) => (
          <a role="tab" aria-selected={tab === name} href={hrefWith({ tab: name === first ? null : name })} data-replace>
            {label}
            {figure ? <span class="num">{figure}</span> : null}
          </a>
        ))}
      </div>
      {tab === 'timeline' && <Timeline story={story} />}
      {tab === 'graph' && graph && <RunGraph graph={graph} />}
      {tab === 'children' && <Family run={story.run} children={story.children} next={story.children_next} />}
      {tab === 'items' && <Items batch={story.run.id} turns={live.turns.value} />}
    </div>
  );
}

function Values({ story, live }: { story: Story; live: LiveRun }) {
  const { run } = story;
  const values: [string, unknown, string][] = [['Input', story.input, 'input']];
  if (run.status === 'completed') values.push(['Result', story.result, 'result']);
  for (const [name, value] of shownBy(story)) values.push([name, value, `exposed:${name}`]);
  return (
    <div class="values">
      {story.failure && (
        <section class="card pad wide" aria-label="error">
          <h2>Error</h2>
          <FailureText failure={story.failure} />
        </section>
      )}
      {values.map(([name, value, of]) => (
        <section class="card pad" key={of} aria-label={plain(name)}>
          <h2 class="text">{plain(name)}</h2>
          <Value value={value} run={run.id} label={plain(name)} source={{ of }} />
        </section>
      ))}
      <Questions run={run} events={live.journal.value} />
    </div>
  );
}

function Missing({ id, title, detail }: { id: string; title: string; detail: string }) {
  return (
    <div class="card empty">
      <h2>{title}</h2>
      <p class="text">{plain(detail)}</p>
      <a class="btn" href={href('', { q: id })}>
        Look for runs that begin like this
      </a>
    </div>
  );
}
