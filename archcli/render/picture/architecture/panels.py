"""Boxes in place of panels."""
from archcli.render.picture.architecture.numbers import concrete, least
from archcli.render.picture.architecture.style import *
from archcli.render.picture.architecture.shapes import Shape
class W(NamedTuple):
    features: Any
    fixed: float
    def at(s,scale): return s.features*scale+s.fixed
class Drawn:
    def __init__(s, title, letter, hue, w, h, widest, path=None):
        s.title,s.letter,s.hue,s.w,s.h,s._widest,s.path=title,letter,hue,w,h,widest,path
    def widest(s, scale): return [W(*it) for it in s._widest]
    def natural(s, scale): return (max([s.w]+[w.at(scale) for w in s.widest(scale)]), s.h)
    def height(s, width): return s.h
    def shapes(s,x,y,width,scale,height=None):
        inside=[rect(x,y,width,height or s.h,"panel thin s-hair",8.0), text(x+14,y+24,f"{s.letter} {s.title}","head")]
        for i,(f,k) in enumerate(s._widest): inside.append(rect(x+width/2-f*scale/2,y+40+i*16,f*scale,8,f"solid-{s.hue}"))
        yield Shape("g",{"data_kind":s.path} if s.path else {},tuple(inside))
def panel(part):
    return Drawn(part.title,part.letter,part.hue,width_of(part.title,"head")+60,320 if part.hue!="dense" else 250,[(n.width.value,40.0) for n in part.nodes])
def wiring(kind): return Drawn(kind.title,"","plain",200,250,[],kind.path)
def common_scale(rooms, most_=0.1):
    limits=[(room-w.fixed)/w.features for d,room in rooms for w in d.widest(1) if concrete(w.features)]
    return least(most_,*limits) if limits else most_
